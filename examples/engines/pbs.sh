#!/bin/sh
#PBS -N cellspan
#PBS -l select=2:ncpus=4:mem=8gb
#PBS -l walltime=1:00:00
# SPDX-License-Identifier: BSD-3-Clause
# Runs train.py on 8 ranks, on the nodes of this job: qsub pbs.sh
cd "${PBS_O_WORKDIR:-.}" || exit 1
hosts=$(mktemp) && awk '!seen[$0]++' "$PBS_NODEFILE" >"$hosts" || exit 1
trap 'rm -f "$hosts"' EXIT
cellspan run -n 8 --on "mpi:-hostfile '$hosts'" train.py
