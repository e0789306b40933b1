# SPDX-License-Identifier: BSD-3-Clause
# lib.sh — functions of the other scripts here. Source it, do not run it.

# state_dir NAME: the absolute state directory of one engine
state_dir() {
  local d=${ENGINES_STATE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.build/engines}
  case $d in /*) ;; *) d=$PWD/$d ;; esac
  echo "$d/$1"
}

# need CMD...: fail with the missing commands
need() {
  local c miss=()
  for c in "$@"; do PATH=$PATH:/usr/sbin:/sbin command -v "$c" >/dev/null || miss+=("$c"); done
  [ ${#miss[@]} -eq 0 ] || { echo "missing: ${miss[*]} (see the header of $0)" >&2; exit 4; }
}

# short_dir: a directory with a short path, for Unix sockets (their path is limited to 107 bytes)
short_dir() { mktemp -d "${TMPDIR:-/tmp}/eng.XXXXXX"; }

# start_time PID: the kernel's start time of a process, which tells a re-used pid from the one that was started
start_time() { sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# state PID: R, S, D, T or Z; empty if there is none.  Under a pid 1 that reaps late, a dead process stays Z for a while.
state() { sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1; }

# pid_alive PIDFILE: true if the process named there runs.  A file written by remember_pid also holds its start time;
# for one that a daemon wrote itself, the process must be older than the file.
pid_alive() {
  local p t now
  [ -s "$1" ] || return 1
  read -r p t <"$1" || true
  case ${p:-x} in *[!0-9]*) return 1 ;; esac
  case $(state "$p") in ''|Z|X) return 1 ;; esac
  if [ -n "${t:-}" ]; then [ "$(start_time "$p")" = "$t" ]; return; fi
  now=$(date +%s)                          # first: this shell may stand still before ps looks
  [ "$(ps -o etimes= -p "$p" 2>/dev/null || echo 0)" -ge "$((now - $(stat -c %Y "$1" 2>/dev/null || echo 0) - 1))" ]
}

# group_alive PGID: true if a process of the group runs
group_alive() {
  local p
  for p in $(pgrep -g "$1" 2>/dev/null); do case $(state "$p") in ''|Z|X) ;; *) return 0 ;; esac; done
  return 1
}

# remember_pid PIDFILE PID
remember_pid() { echo "$2 $(start_time "$2")" >"$1"; }

# spawn PIDFILE LOG CMD...: start in the background, leader of its own process group, detached from this shell
spawn() {
  local pf=$1 log=$2; shift 2
  setsid "$@" </dev/null >"$log" 2>&1 &
  remember_pid "$pf" $!
}

# stop_pidfile PIDFILE [SECONDS]: TERM, then KILL after SECONDS (default 5); removes the file
stop_pidfile() {
  local p i n=$(( ${2:-5} * 20 ))
  if pid_alive "$1"; then
    read -r p _ <"$1"
    kill "$p" 2>/dev/null
    for ((i = 0; i < n; i++)); do pid_alive "$1" || break; sleep 0.05; done
    pid_alive "$1" && kill -9 "$p" 2>/dev/null
    for ((i = 0; i < 600; i++)); do pid_alive "$1" || break; sleep 0.05; done    # what it held (a tap, a port) is free then
  fi
  rm -f "$1"
}

# stop_group PIDFILE [SECONDS]: the same for a process group whose leader spawn made; the leader itself is asked first
stop_group() {
  local p t i n=$(( ${2:-5} * 20 ))
  if [ -s "$1" ]; then
    read -r p t <"$1" || true
    # without its leader the group id could be another's by now, unless members that it started are left
    if pid_alive "$1" || { [ ! -d "/proc/$p" ] && [ -n "$(pgrep -s "$p" 2>/dev/null)" ]; } || [ "$(state "$p")" = Z ]; then
      kill "$p" 2>/dev/null
      for ((i = 0; i < n; i++)); do pid_alive "$1" || break; sleep 0.05; done
      group_alive "$p" && kill -- -"$p" 2>/dev/null
      for ((i = 0; i < n; i++)); do group_alive "$p" || break; sleep 0.05; done
      group_alive "$p" && kill -9 -- -"$p" 2>/dev/null
    fi
  fi
  rm -f "$1"
}

# wait_for SECONDS CMD...: poll until CMD succeeds
wait_for() {
  local _i _n=$(( $1 * 10 )); shift        # CMD may be a function, which sees these locals: no plain names
  for ((_i = 0; _i < _n; _i++)); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
  return 1
}
