#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# hosts.sh — separate "hosts" on one machine: each has its own network, pid, mount, ipc and host name namespace and an sshd.
#
#   hosts.sh up [N]                 N hosts (default 3): h1..hN at NET.1..NET.N; this side is NET.254
#   hosts.sh down | status
#   hosts.sh exec hI CMD...         run CMD inside host I (no ssh)
#   hosts.sh link hI up|down        unplug or plug in the network cable (no FIN, no RST: the peer sees silence)
#   hosts.sh cut hI hJ | heal hI hJ drop all packets between two hosts (hJ may be h0: this side)
#   hosts.sh net hI MS [LOSS% [JITTER_MS]]   delay, loss and jitter on the link of host I in each direction; `net hI 0` removes it
#   hosts.sh rate hI 10mbit|off     limit what host I sends
#   hosts.sh kill hI                power off: unplug the cable, then kill every process of the host
#   hosts.sh start hI               power on again
#   hosts.sh env                    prints HOSTS_SSH_CONFIG=...; then  ssh -F "$HOSTS_SSH_CONFIG" h1 hostname
#
# Needs (apt): openssh-server, openssh-client, iproute2, iptables (cut/heal), util-linux, procps; python3 for `net`.
# Runs as root; the kernel needs net namespaces, veth, bridge; TUN for `net` (netem is not needed), TBF for `rate`.
# The file system is shared (like NFS), except /dev/shm, /run and HOSTS_PRIVATE.  There is no route to other networks.
#
# Environment (all optional):
#   ENGINES_STATE   directory for all state (default .build/engines of the checkout); this script uses $ENGINES_STATE/hosts
#   HOSTS_PREFIX    prefix of the names of namespaces and links (default cs: namespaces cs-h1.., bridge cs-br); 4 letters at most
#   HOSTS_NET       first three bytes of the /24 (default 10.77.0)
#   HOSTS_RC        keep: ssh logins read the user's start files (.bashrc ...); by default they are hidden
#   HOSTS_PRIVATE   directories that are empty and private on every host (e.g. /tmp)
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
S=$(state_dir hosts)
P=${HOSTS_PREFIX:-cs}; NET=${HOSTS_NET:-10.77.0}
[ -f "$S/env" ] && . "$S/env"          # what `up` was told holds for the commands after it
PATH=$PATH:/usr/sbin:/sbin

host_pid() { cut -d' ' -f1 "$S/$1.init" 2>/dev/null; }
num() { case $1 in h[0-9]|h[0-9][0-9]) [ "${1#h}" -le "${N:-0}" ] && { echo "${1#h}"; return; } ;; esac; echo "no host $1" >&2; exit 2; }

start_host() {
  local i=$1
  ip netns exec "$P-h$i" unshare --pid --fork --kill-child --mount --uts --ipc --mount-proc \
    bash "$here/hosts-init.sh" "h$i" "$S" "$NET.$i" ${HOSTS_PRIVATE:-} </dev/null >"$S/h$i.log" 2>&1 &
  local u=$! c
  for ((c = 0; c < 1500; c++)); do [ -n "$(pgrep -P "$u" 2>/dev/null)" ] && break; sleep 0.02; done
  remember_pid "$S/h$i.unshare" "$u"
  remember_pid "$S/h$i.init" "$(pgrep -P "$u" | head -1)"
  disown
}

up() {
  need sshd ssh-keygen ip unshare nsenter
  N=${1:-3}
  if [ -f "$S/env" ]; then echo "hosts: already up ($S)"; return 0; fi
  # no host-side object may be there already: other tests' hosts use another HOSTS_PREFIX and HOSTS_NET
  if ip link show "$P-br" >/dev/null 2>&1; then echo "hosts: link $P-br exists; set HOSTS_PREFIX and HOSTS_NET" >&2; return 1; fi
  mkdir -p "$S"; chmod 755 "$S"
  [ -f "$S/id" ] || ssh-keygen -q -t ed25519 -N '' -C hosts -f "$S/id"
  [ -f "$S/hostkey" ] || ssh-keygen -q -t ed25519 -N '' -C hostkey -f "$S/hostkey"
  cat >"$S/sshd_config" <<CONF
Port 22
HostKey $S/hostkey
AuthorizedKeysFile $S/id.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
PrintMotd no
UseDNS no
MaxStartups 200
MaxSessions 100
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
CONF
  : >"$S/known_hosts"; echo "127.0.0.1 localhost" >"$S/etc_hosts"; echo "$NET.254 h0" >>"$S/etc_hosts"
  printf 'Host *\n  User root\n  IdentityFile "%s"\n  IdentitiesOnly yes\n  UserKnownHostsFile "%s"\n  StrictHostKeyChecking yes\n  BatchMode yes\n  ConnectTimeout 20\n' "$S/id" "$S/known_hosts" >"$S/ssh_config"
  local i k; k=$(cut -d' ' -f1,2 "$S/hostkey.pub")
  for ((i = 1; i <= N; i++)); do
    echo "$NET.$i h$i" >>"$S/etc_hosts"
    echo "h$i,$NET.$i $k" >>"$S/known_hosts"
    printf 'Host h%d\n  HostName %s\n' "$i" "$NET.$i" >>"$S/ssh_config"
  done
  printf 'P=%q\nNET=%q\nN=%q\nHOSTS_PRIVATE=%q\n' "$P" "$NET" "$N" "${HOSTS_PRIVATE:-}" >"$S/env"
  ip link add "$P-br" address 02:43:53:00:00:fe type bridge || return 1
  ip addr add "$NET.254/24" dev "$P-br"; ip link set "$P-br" up
  for ((i = 1; i <= N; i++)); do
    ip netns add "$P-h$i" || return 1
    ip link add "$P-v$i" type veth peer name eth0 netns "$P-h$i" || return 1
    sysctl -q -w "net.ipv6.conf.$P-v$i.disable_ipv6=1" "net.ipv4.conf.$P-v$i.arp_ignore=8" 2>/dev/null
    ip link set "$P-v$i" master "$P-br" up
    ip -n "$P-h$i" link set lo up
    ip -n "$P-h$i" addr add "$NET.$i/24" dev eth0
    ip -n "$P-h$i" link set eth0 up
    start_host "$i"
  done
  for ((i = 1; i <= N; i++)); do
    wait_for 60 bash -c "exec 3<>/dev/tcp/$NET.$i/22" || { echo "hosts: h$i has no sshd; see $S/h$i.log" >&2; return 1; }
  done
  echo "hosts: $N up; HOSTS_SSH_CONFIG=$S/ssh_config"
}

stop_host() {
  local p
  if pid_alive "$S/h$1.init"; then
    read -r p _ <"$S/h$1.init"; kill -9 "$p" 2>/dev/null    # pid 1 of the namespace: every process in it goes with it
    local c; for ((c = 0; c < 1500; c++)); do pid_alive "$S/h$1.init" || break; sleep 0.02; done
  fi
  stop_pidfile "$S/h$1.unshare" 1
  rm -f "$S/h$1.init"
}

down() {
  [ -f "$S/env" ] || { echo "hosts: not up"; return 0; }
  local i
  for ((i = 1; i <= N; i++)); do
    stop_pidfile "$S/h$i.wire" 1
    stop_host "$i"
    ip link del "$P-v$i" 2>/dev/null; ip netns del "$P-h$i" 2>/dev/null
  done
  ip link del "$P-br" 2>/dev/null
  rm -f "$S/env"
  echo "hosts: down"
}

net() { # hI MS [LOSS [JITTER]]
  local i; i=$(num "$1") || exit 2
  stop_pidfile "$S/h$i.wire" 1
  ip link set "$P-v$i" nomaster
  if [ "$2" = 0 ] && [ "${3:-0}" = 0 ]; then ip link set "$P-v$i" master "$P-br"; return; fi
  need python3
  rm -f "$S/h$i.ready"
  spawn "$S/h$i.wire" "$S/h$i.wire.log" python3 "$here/wire.py" "$P-v$i" "$P-t$i" "$P-br" "$2" "${3:-0}" "${4:-0}" "$S/h$i.ready"
  wait_for 30 test -e "$S/h$i.ready" || { cat "$S/h$i.wire.log" >&2; return 1; }
}

cut_or_heal() { # -A|-D hI hJ
  local op=$1 i j a b; i=$(num "$2") || exit 2; j=$(num "$3") || exit 2
  local pair x y
  for pair in "$i $j" "$j $i"; do
    read -r x y <<<"$pair"; [ "$x" = 0 ] && continue
    [ "$y" = 0 ] && b=$NET.254 || b=$NET.$y
    for a in "INPUT -s" "OUTPUT -d"; do
      if [ "$op" = -A ]; then ip netns exec "$P-h$x" iptables -w -C $a "$b" -j DROP 2>/dev/null || ip netns exec "$P-h$x" iptables -w -A $a "$b" -j DROP
      else ip netns exec "$P-h$x" iptables -w -D $a "$b" -j DROP 2>/dev/null; fi
    done
  done
  return 0
}

c=${1:-}; [ $# -gt 0 ] && shift
case $c in
  up|down|env) ;;
  status|exec|link|cut|heal|net|rate|kill|start) [ -f "$S/env" ] || { echo "hosts: not up"; exit 3; } ;;
esac
case $c in
  up) up "$@" || { rc=$?; [ -f "$S/env" ] && down >/dev/null; exit $rc; } ;;
  down) down ;;
  status) for ((i = 1; i <= N; i++)); do
      printf 'h%d %s %s link=%s wire=%s\n' "$i" "$NET.$i" "$(pid_alive "$S/h$i.init" && echo up || echo off)" \
        "$(ip -n "$P-h$i" -o link show eth0 | grep -o 'state [A-Z]*' | cut -d' ' -f2)" "$(pid_alive "$S/h$i.wire" && tr '\0' ' ' <"/proc/$(cut -d' ' -f1 "$S/h$i.wire")/cmdline" | cut -d' ' -f6-8 || echo none)"
    done ;;
  exec) i=$(num "$1") || exit 2; shift
    pid_alive "$S/h$i.init" || { echo "h$i is off" >&2; exit 3; }
    exec nsenter -t "$(host_pid "h$i")" -a --wd="$PWD" "$@" ;;
  link) i=$(num "$1") || exit 2; ip link set "$P-v$i" "$2" ;;
  cut) cut_or_heal -A "$1" "$2" ;;
  heal) cut_or_heal -D "$1" "$2" ;;
  net) net "$@" ;;
  rate) i=$(num "$1") || exit 2
    ip netns exec "$P-h$i" tc qdisc del dev eth0 root 2>/dev/null
    [ "$2" = off ] || ip netns exec "$P-h$i" tc qdisc add dev eth0 root tbf rate "$2" burst 64kb latency 200ms ;;
  kill) i=$(num "$1") || exit 2; ip link set "$P-v$i" down; stop_host "$i" ;;
  start) i=$(num "$1") || exit 2; pid_alive "$S/h$i.init" && exit 0; ip link set "$P-v$i" up; start_host "$i"
    wait_for 60 bash -c "exec 3<>/dev/tcp/$NET.$i/22" ;;
  env) echo "export HOSTS_SSH_CONFIG=$(printf %q "$S/ssh_config")" ;;
  *) sed -n '3,/^set -u/{/^#/p}' "$0"; exit 2 ;;
esac
