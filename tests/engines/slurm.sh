#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slurm.sh up|down|status|env — a temporary Slurm cluster on this host: one slurmctld and N slurmd "nodes".
#
# Needs (apt): slurm-wlm (slurmctld, slurmd, slurm-client come with it), munge.  Runs as root, without systemd.
# No slurmdbd: sacct does not work; squeue, sinfo, srun, sbatch, salloc, scancel, scontrol do.
#
# Environment (all optional):
#   ENGINES_STATE      directory for all state (default .build/engines of the checkout); this script uses $ENGINES_STATE/slurm
#   SLURM_NODES        number of nodes (default 4), named n1..nN
#   SLURM_NODE_CPUS    CPUs that every node claims to have (default 4; they need not exist)
#   SLURM_NODE_GPUS    fake GPUs that every node claims to have (default 2; 0: none): device nodes without a device
#   SLURM_PORT         first port (default 17100: slurmctld there, slurmd on +1..+N)
#   SLURM_MAX_TIME     MaxTime of the partition (default INFINITE)
#   SLURM_TASK_PROLOG  a program that runs before each task on its node (TaskProlog; default none)
#   SLURM_PROCTRACK    cgroup | linuxproc | pgid (default: cgroup where cgroup v1's freezer can be written, else linuxproc)
#   SLURM_NETNS        names of network namespaces, e.g. those of hosts.sh; when given, slurmd number i runs inside the i-th
#                      (SLURM_NODES = their number) and SLURM_CTL_ADDR must be an address of this host that they reach
#   SLURM_CTL_ADDR     address of slurmctld (default 127.0.0.1)
#
# After `up`:  eval "$(slurm.sh env)"   (sets SLURM_CONF)   then   srun -N4 hostname
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
S=$(state_dir slurm)
nodes=${SLURM_NODES:-4}; cpus=${SLURM_NODE_CPUS:-4}; gpus=${SLURM_NODE_GPUS:-2}; port=${SLURM_PORT:-17100}
ctl=${SLURM_CTL_ADDR:-127.0.0.1}
read -r -a netns <<<"${SLURM_NETNS:-}"
[ ${#netns[@]} -gt 0 ] && nodes=${#netns[@]}

proctrack() {
  if [ -n "${SLURM_PROCTRACK:-}" ]; then echo "$SLURM_PROCTRACK"
  elif [ -d /sys/fs/cgroup/freezer ] && [ -w /sys/fs/cgroup/freezer ]; then echo cgroup
  else echo linuxproc; fi
}

write_conf() {
  local host i
  host=$(hostname)
  mkdir -p "$S/ctl" "$S/run" "$S/log" "$S/dev"
  for ((i = 1; i <= nodes; i++)); do mkdir -p "$S/spool/n$i"; done
  for ((i = 0; i < gpus; i++)); do [ -c "$S/dev/nvidia$i" ] || mknod "$S/dev/nvidia$i" c 195 "$i"; done
  {
    cat <<CONF
ClusterName=engines
SlurmctldHost=$host($ctl)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$SOCK/munge.sock
MpiDefault=none
ProctrackType=proctrack/$(proctrack)
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=20000,bf_interval=1,nohold_on_prolog_fail
SlurmdParameters=config_overrides
LaunchParameters=use_interactive_step
InteractiveStepOptions="--interactive --preserve-env --pty \$SHELL"
ReturnToService=2
KillWait=5
InactiveLimit=0
MinJobAge=300
SlurmctldTimeout=30
SlurmdTimeout=300
StateSaveLocation=$S/ctl
SlurmdSpoolDir=$S/spool/%n
SlurmctldPidFile=$S/run/slurmctld.pid
SlurmdPidFile=$S/run/slurmd-%n.pid
SlurmctldLogFile=$S/log/slurmctld.log
SlurmdLogFile=$S/log/slurmd-%n.log
CONF
    [ -z "${SLURM_TASK_PROLOG:-}" ] || echo "TaskProlog=$SLURM_TASK_PROLOG"
    [ "$gpus" -gt 0 ] && echo "GresTypes=gpu"
    for ((i = 1; i <= nodes; i++)); do
      local addr=127.0.0.1 nh=$host
      if [ ${#netns[@]} -gt 0 ]; then
        addr=$(ip -n "${netns[i-1]}" -4 -o addr show scope global | awk '{sub("/.*","",$4); print $4; exit}')
        nh=n$i
      fi
      printf 'NodeName=n%d NodeHostname=%s NodeAddr=%s Port=%d CPUs=%d RealMemory=2000%s State=UNKNOWN\n' \
        "$i" "$nh" "$addr" $((port + i)) "$cpus" "$([ "$gpus" -gt 0 ] && echo " Gres=gpu:$gpus")"
    done
    echo "PartitionName=main Nodes=ALL Default=YES MaxTime=${SLURM_MAX_TIME:-INFINITE} State=UP OverSubscribe=NO"
  } >"$S/slurm.conf"
  if [ "$gpus" -gt 0 ]; then
    echo "NodeName=n[1-$nodes] Name=gpu File=$S/dev/nvidia[0-$((gpus - 1))]" >"$S/gres.conf"
  else : >"$S/gres.conf"; fi
  printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\n' >"$S/cgroup.conf"
}

up() {
  need slurmctld slurmd munged munge
  if pid_alive "$S/run/slurmctld.pid"; then echo "slurm: already up ($S)"; return 0; fi
  down quiet
  mkdir -p "$S"; chmod 755 "$S"
  SOCK=$(short_dir); echo "$SOCK" >"$S/sock"; chmod 755 "$SOCK"
  write_conf
  mkdir -p -m 700 "$S/munge"
  [ -s "$S/munge/key" ] || (umask 077; head -c 128 /dev/urandom >"$S/munge/key")
  chmod 700 "$S/munge"
  # --force: the state directory may lie under one that a group can write
  munged --force --key-file="$S/munge/key" --socket="$SOCK/munge.sock" --pid-file="$S/run/munged.pid" \
    --log-file="$S/log/munged.log" --seed-file="$S/munge/seed" --num-threads=2 >"$S/log/munged.out" 2>&1 \
    || { cat "$S/log/munged.out" >&2; return 1; }
  export SLURM_CONF=$S/slurm.conf
  slurmctld -c -f "$SLURM_CONF" || return 1     # -c: forget jobs of an earlier run
  local i
  for ((i = 1; i <= nodes; i++)); do
    if [ ${#netns[@]} -gt 0 ]; then                # not `ip netns exec`: it hides /sys/fs/cgroup
      nsenter --net="/run/netns/${netns[i-1]}" unshare -u sh -c 'hostname "$1"; exec slurmd -N "$1" -f "$2"' sh "n$i" "$SLURM_CONF" || return 1
    else
      slurmd -N "n$i" -f "$SLURM_CONF" || return 1
    fi
  done
  for ((i = 0; i < 900; i++)); do
    [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" -eq "$nodes" ] && { echo "slurm: $nodes nodes idle; SLURM_CONF=$SLURM_CONF"; return 0; }
    sleep 0.1
  done
  echo "slurm: nodes did not come up; logs in $S/log" >&2; sinfo -N -l >&2; return 1
}

down() {
  [ -d "$S/run" ] || { [ "${1:-}" = quiet ] || echo "slurm: not up"; return 0; }
  if pid_alive "$S/run/slurmctld.pid"; then
    export SLURM_CONF=$S/slurm.conf
    timeout 10 scancel -u root 2>/dev/null
    local i; for ((i = 0; i < 80; i++)); do [ -z "$(timeout 5 squeue -h 2>/dev/null)" ] && break; sleep 0.1; done
  fi
  local f
  for f in "$S"/run/slurmd-*.pid "$S/run/slurmctld.pid" "$S/run/munged.pid"; do stop_pidfile "$f"; done
  # slurmd leaves empty cgroups of its nodes; without cgroups those that are there are another cluster's, which may be about to use them
  if grep -qx ProctrackType=proctrack/cgroup "$S/slurm.conf" 2>/dev/null; then
    for f in /sys/fs/cgroup/*/slurm_n[0-9]*; do [ -d "$f" ] && find "$f" -depth -type d -exec rmdir {} + 2>/dev/null; done
  fi
  [ -f "$S/sock" ] && rm -rf "$(cat "$S/sock")"
  rm -rf "$S/ctl" "$S/spool" "$S/run" "$S/sock"
  [ "${1:-}" = quiet ] || echo "slurm: down"
}

case "${1:-}" in
  up) up ;;
  down) down ;;
  status) if pid_alive "$S/run/slurmctld.pid"; then SLURM_CONF=$S/slurm.conf sinfo -N -o '%N %T %c %G'; else echo "slurm: not up"; exit 3; fi ;;
  env) echo "export SLURM_CONF=$(printf %q "$S/slurm.conf")" ;;
  *) sed -n '3,/^set -u/{/^#/p}' "$0"; exit 2 ;;
esac
