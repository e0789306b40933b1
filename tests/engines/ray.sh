#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# ray.sh install|up|down|status|env — a Ray cluster of N nodes on this machine: a head, and N-1 more raylets.
#
# `install` makes a virtual environment with pip's ray. About 750 MiB for the head, 430 MiB for each other node.
#
# Environment (all optional):
#   ENGINES_STATE    directory for all state (default .build/engines of the checkout); this script uses $ENGINES_STATE/ray
#   RAY_VERSION      of ray (default 2.60.0)
#   RAY_VENV         the virtual environment (default .build/ray/$RAY_VERSION of the checkout). It has nothing but Ray: with all packages of
#                    the tests beside them, Ray's own processes do not come up
#   RAY_NODES        number of nodes (default 2)
#   RAY_NODE_CPUS    CPUs that each node claims (default 2)
#   RAY_NODE_GPUS    GPUs that each node claims (default 0; they need not exist: Ray only sets CUDA_VISIBLE_DEVICES); with 2, the second node
#                    has 2 and 3
#   RAY_PORT         port of the head (default 17300)
#   RAY_STORE_MB     object store of each node (default 80)
#
# After `up`:  eval "$(ray.sh env)"   sets RAY_ADDRESS.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
S=$(state_dir ray)
built=$(cd "$here/../.." && pwd)/.build
version=${RAY_VERSION:-2.60.0}; at=${RAY_VENV:-$built/ray/$version}
nodes=${RAY_NODES:-2}; cpus=${RAY_NODE_CPUS:-2}; gpus=${RAY_NODE_GPUS:-0}; port=${RAY_PORT:-17300}; store=${RAY_STORE_MB:-80}
PATH=$at/bin:$PATH
[ -f "$S/env" ] && . "$S/env"    # what `up` was told
export RAY_USAGE_STATS_ENABLED=0 RAY_DISABLE_IMPORT_WARNING=1
# On a busy machine Ray's own processes take longer than it lets them.
export RAY_raylet_start_wait_time_s=300 RAY_agent_register_timeout_ms=300000 RAY_health_check_timeout_ms=60000

install() {
  [ "$(cat "$at/made" 2>/dev/null)" = "$version" ] && { echo "ray: $at has $version"; return 0; }
  mkdir -p "$at"
  "${PYTHON:-$built/venv/bin/python}" -m venv "$at" || return 1
  "$at/bin/pip" install -q --disable-pip-version-check "ray[default]==$version" || return 1
  echo "$version" >"$at/made"
  echo "ray: $at has $version"
}

# The nodes that are there.
alive() { python3 - "127.0.0.1:$port" <<'P' 2>/dev/null
import sys, os
os.environ.setdefault("RAY_LOG_TO_STDERR", "0")
from ray._raylet import GcsClient
print(sum(1 for n in GcsClient(address=sys.argv[1]).get_all_node_info().values() if n.state == 0))
P
}

# How many raylets have ended because other processes of their node were slow to start: Ray gives these 15 s.
too_slow() { grep -l 'Timed out waiting for file' "$tmp"/session_2*/logs/raylet*.err 2>/dev/null | wc -l; }

# node I ARGUMENT…: starts it, and waits for it. 2: it was too slow, and is stopped.
node() {
  local i=$1 k had; shift
  had=$(too_slow)
  spawn "$S/n$i.pid" "$S/n$i.log" ray start "$@"
  for ((k = 0; k < 200; k++)); do
    [ "$(alive)" = "$i" ] && return 0
    [ "$(too_slow)" = "$had" ] || { stop_group "$S/n$i.pid" 10; return 2; }
    pid_alive "$S/n$i.pid" || { tail -n 20 "$S/n$i.log" >&2; return 1; }
    sleep 0.3
  done
  echo "ray: node $i did not come up" >&2; tail -n 20 "$S/n$i.log" >&2
  return 1
}

up() {
  need ray
  if pid_alive "$S/n1.pid"; then echo "ray: already up; RAY_ADDRESS=127.0.0.1:$port"; return 0; fi
  mkdir -p "$S"
  tmp=$(short_dir)                        # Ray's sockets need a short path
  printf 'port=%q\ntmp=%q\nnodes=%q\n' "$port" "$tmp" "$nodes" >"$S/env"
  local i
  for ((i = 1; i <= nodes; i++)); do
    if [ "$gpus" != 0 ]; then
      CUDA_VISIBLE_DEVICES=$(seq -s, $((gpus * (i - 1))) $((gpus * i - 1)))
      export CUDA_VISIBLE_DEVICES
    fi
    local args=(--node-ip-address=127.0.0.1 --num-cpus="$cpus" --num-gpus="$gpus" --object-store-memory=$((store * 1048576))
                --resources="{\"node-$i\": 1}" --disable-usage-stats --block
                --min-worker-port=0 --max-worker-port=0 --dashboard-agent-listen-port=$((port + 1 + i)))
    if [ "$i" = 1 ]; then args+=(--head --port="$port" --ray-client-server-port=$((port + 1)) --include-dashboard=false --temp-dir="$tmp")
    else args+=(--address="127.0.0.1:$port"); fi
    # the nodes are started one after another: two at once pick the same ports
    local try rc=2
    for ((try = 0; try < 3 && rc == 2; try++)); do node "$i" "${args[@]}"; rc=$?; done
    [ "$rc" = 0 ] || { echo "ray: node $i is not there" >&2; return 1; }
  done
  echo "ray: $nodes nodes; RAY_ADDRESS=127.0.0.1:$port"
}

down() {
  [ -f "$S/env" ] || { echo "ray: not up"; return 0; }
  local i
  for ((i = nodes; i >= 1; i--)); do stop_group "$S/n$i.pid" 10; done
  [ -n "${tmp:-}" ] && rm -rf "$tmp"
  rm -f "$S/env"
  echo "ray: down"
}

case "${1:-}" in
  up) up || { rc=$?; down >/dev/null; exit $rc; } ;;
  install) install ;;
  down) down ;;
  status) if pid_alive "$S/n1.pid"; then echo "ray: $(alive) nodes; RAY_ADDRESS=127.0.0.1:$port"; else echo "ray: not up"; exit 3; fi ;;
  env) printf 'export RAY_ADDRESS=%q\n' "127.0.0.1:$port" ;;
  *) sed -n '2,/^set -u/{/^#/p}' "$0"; exit 2 ;;
esac
