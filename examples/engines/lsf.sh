#!/bin/sh
#BSUB -J cellspan
#BSUB -n 8
#BSUB -R "span[ptile=4]"
#BSUB -W 1:00
# SPDX-License-Identifier: BSD-3-Clause
# Runs train.py on 8 ranks, on the nodes of this job: bsub <lsf.sh
exec cellspan run -n 8 --on "mpi:-hostfile '$LSB_DJOB_HOSTFILE'" train.py
