#!/bin/sh
#flux: --job-name=cellspan
#flux: --nodes=2
#flux: --time-limit=1h
# SPDX-License-Identifier: BSD-3-Clause
# Runs train.py on 8 ranks, on the nodes of this job: flux batch flux.sh
hosts=$(flux hostlist --expand --delimiter=, instance) || exit 1
exec cellspan run -n 8 --on "mpi:-host '$hosts'" train.py
