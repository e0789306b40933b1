#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# spark.sh install|up|down|status|env — a Spark standalone cluster on the loopback: a master and N workers; on demand a Connect server.
#
# Needs (apt): a Java 17, e.g. openjdk-17-jre-headless.  `install` makes a virtual environment with pip's pyspark, which brings Spark.
# About 205 MiB for the master and for each worker. An application adds the JVM of its driver, and one for each executor.
#
# Environment (all optional):
#   ENGINES_STATE     directory for all state (default .build/engines of the checkout); this script uses $ENGINES_STATE/spark
#   SPARK_VERSION     of pyspark (default 4.0.1; 3.5.x works)
#   SPARK_VENV        the virtual environment (default .build/spark/$SPARK_VERSION of the checkout). It also sees the packages of
#                     .build/venv, so that ranks on executors have what tests use
#   SPARK_WORKERS     number of workers (default 2)
#   SPARK_CORES       cores that each worker claims (default 2; they need not exist)
#   SPARK_GPUS        fake GPUs that each worker claims (default 0), found by a discovery script; with 2, the second worker has 2 and 3
#   SPARK_PORT        first port (default 17400: the master there, web pages on +1 and up)
#   SPARK_CONNECT     1: also a Connect server, on SPARK_PORT + 20. pip's pyspark has it from 4.0 on; for 3.5 SPARK_CONNECT_JAR names
#                     spark-connect_2.12-3.5.x.jar
#   SPARK_PYTHON      the Python of the Connect server's tasks (default $SPARK_VENV/bin/python)
#   SPARK_HIDE        folders that are empty for workers and executors, which then run as root in a mount namespace of their own
#   SPARK_CONF        lines of spark-defaults.conf, for every application that uses `env`
#
# After `up`:  eval "$(spark.sh env)"   sets SPARK_MASTER=spark://127.0.0.1:PORT, SPARK_REMOTE_URL if there is a Connect server, SPARK_HOME,
# SPARK_CONF_DIR, SPARK_LOCAL_IP, PYSPARK_PYTHON.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
S=$(state_dir spark)
[ -f "$S/env" ] && . "$S/env"    # what `up` was told
built=$(cd "$here/../.." && pwd)/.build
version=${SPARK_VERSION:-4.0.1}; at=${SPARK_VENV:-$built/spark/$version}; workers=${SPARK_WORKERS:-2}; cores=${SPARK_CORES:-2}
gpus=${SPARK_GPUS:-0}; port=${SPARK_PORT:-17400}; connect=${SPARK_CONNECT:-0}

home() { "$at/bin/python" -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("pyspark").origin))'; }
registered() { [ "$(grep -c 'Registering worker' "$S/master.log" 2>/dev/null)" -ge "$workers" ]; }

# Spark 4's Connect client and mapInArrow need pyarrow and grpc. pip does not compile: only a few modules are imported. But where Python may
# keep nothing, each process of a session would compile these again.
install() {
  local more=
  [ -x "$at/bin/python" ] && [ "$(cat "$at/made" 2>/dev/null)" = "$version" ] && { echo "spark: $at has $version"; return 0; }
  mkdir -p "$at"
  "${PYTHON:-$built/venv/bin/python}" -m venv "$at" || return 1
  for more in "$at"/lib/python3.*/site-packages; do
    echo "$built/venv/lib/${more#"$at"/lib/}" >"$more/tests.pth"
  done
  "$at/bin/pip" install -q --no-compile --disable-pip-version-check "setuptools<81" wheel &&
    "$at/bin/pip" install -q --no-compile --no-build-isolation --disable-pip-version-check "pyspark==$version" pyarrow pandas \
      "grpcio>=1.67" "grpcio-status>=1.67" googleapis-common-protos || return 1
  [ -z "${PYTHONDONTWRITEBYTECODE-}" ] ||
    "$at/bin/python" -m compileall -q -j 0 -x '/tests?/' "$at"/lib/python3.*/site-packages/{pyspark,py4j,pandas,pyarrow} >/dev/null || :
  echo "$version" >"$at/made"
  echo "spark: $at has $version"
}

write_conf() {
  mkdir -p "$S/conf"
  # the standalone classes are started themselves: start-master.sh is not in pip's pyspark
  cat >"$S/conf/log4j2.properties" <<'CONF'
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
CONF
  {
    echo "spark.executor.memory 512m"
    echo "spark.executor.extraJavaOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    echo "spark.driver.memory 512m"
    echo "spark.driver.extraJavaOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    echo "spark.ui.enabled false"
    printf '%s\n' "${SPARK_CONF:-}"
  } >"$S/conf/spark-defaults.conf"
}

# Starts a JVM of Spark: PIDFILE LOG CLASS ARGUMENT…
daemon() {
  local pf=$1 log=$2; shift 2
  XDG_CACHE_HOME=$S/cache SPARK_HOME=$h SPARK_CONF_DIR=$S/conf SPARK_LOCAL_IP=127.0.0.1 SPARK_DAEMON_MEMORY=${memory:-256m} PYSPARK_PYTHON=${SPARK_PYTHON:-$at/bin/python} \
    SPARK_DAEMON_JAVA_OPTS="-Dspark.ui.enabled=false -Dspark.worker.timeout=10 -XX:+UseSerialGC -XX:TieredStopAtLevel=1" \
    spawn "$pf" "$log" "$@"
}

up() {
  need java
  if pid_alive "$S/master.pid"; then echo "spark: already up; SPARK_MASTER=spark://127.0.0.1:$port"; return 0; fi
  local h i res=() apart=()
  [ -n "${SPARK_HIDE:-}" ] &&
    apart=(unshare -m sh -c 'for f in $SPARK_HIDE; do mount -t tmpfs hidden "$f" || exit 1; done; exec "$@"' sh)
  h=$(home 2>/dev/null) && [ -n "$h" ] || { echo "pyspark is not in $at: $0 install" >&2; return 4; }
  rm -rf "$S"; write_conf
  printf 'SPARK_VERSION=%q\nSPARK_VENV=%q\nSPARK_PORT=%q\nSPARK_WORKERS=%q\nSPARK_CONNECT=%q\n' "$version" "$at" "$port" "$workers" "$connect" >"$S/env"
  if [ "$gpus" -gt 0 ]; then
    for ((i = 1; i <= workers; i++)); do
      printf '#!/bin/sh\necho %s\n' "'{\"name\": \"gpu\", \"addresses\": [$(seq -s, $((gpus * (i - 1))) $((gpus * i - 1)) | sed 's/[0-9]\+/"&"/g')]}'" >"$S/gpus$i.sh"
      chmod +x "$S/gpus$i.sh"
      printf 'spark.worker.resource.gpu.amount %s\nspark.worker.resource.gpu.discoveryScript %s\n' "$gpus" "$S/gpus$i.sh" >"$S/conf/worker$i.conf"
    done
  fi
  daemon "$S/master.pid" "$S/master.log" "$h/bin/spark-class" org.apache.spark.deploy.master.Master \
    --host 127.0.0.1 --port "$port" --webui-port $((port + 1))
  wait_for 240 grep -q 'New state: ALIVE' "$S/master.log" || { tail "$S/master.log" >&2; return 1; }
  for ((i = 1; i <= workers; i++)); do
    mkdir -p "$S/work$i"
    [ "$gpus" = 0 ] || res=(--properties-file "$S/conf/worker$i.conf")
    SPARK_WORKER_DIR="$S/work$i" daemon "$S/w$i.pid" "$S/w$i.log" "${apart[@]}" "$h/bin/spark-class" org.apache.spark.deploy.worker.Worker \
      --host 127.0.0.1 --cores "$cores" --memory 2g --webui-port $((port + 1 + i)) --work-dir "$S/work$i" "${res[@]}" "spark://127.0.0.1:$port"
  done
  wait_for 240 registered || { tail -n 20 "$S"/w*.log >&2; return 1; }
  [ "$connect" != 1 ] || connect_up || return 1
  echo "spark: $version, $workers workers; SPARK_MASTER=spark://127.0.0.1:$port"
}

connect_said() { grep -q 'Spark Connect server started at' "$S/connect.log" || ! pid_alive "$S/connect.pid"; }

connect_up() {
  memory=600m daemon "$S/connect.pid" "$S/connect.log" "$h/bin/spark-submit" --master "spark://127.0.0.1:$port" --name connect \
    --conf "spark.connect.grpc.binding.port=$((port + 20))" ${SPARK_CONNECT_JAR:+--jars "$SPARK_CONNECT_JAR"} \
    --class org.apache.spark.sql.connect.service.SparkConnectServer
  wait_for 240 connect_said && pid_alive "$S/connect.pid" || { tail -n 20 "$S/connect.log" >&2; return 1; }
}

down() {
  [ -f "$S/env" ] || { echo "spark: not up"; return 0; }
  local i
  stop_group "$S/connect.pid" 20
  for ((i = 1; i <= workers; i++)); do stop_group "$S/w$i.pid" 10; done
  stop_group "$S/master.pid" 10
  rm -rf "$S"/work* "$S/env"
  echo "spark: down"
}

case "${1:-}" in
  install) install ;;
  up) up || { rc=$?; down >/dev/null; exit $rc; } ;;
  down) down ;;
  status) if pid_alive "$S/master.pid"; then echo "spark: up; SPARK_MASTER=spark://127.0.0.1:$port"; else echo "spark: not up"; exit 3; fi ;;
  env)
    printf 'export SPARK_MASTER=%q SPARK_HOME=%q SPARK_CONF_DIR=%q SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON=%q\n' \
      "spark://127.0.0.1:$port" "$(home)" "$S/conf" "$at/bin/python"
    [ "$connect" != 1 ] || printf 'export SPARK_REMOTE_URL=%q\n' "sc://127.0.0.1:$((port + 20))" ;;
  *) sed -n '3,/^set -u/{/^#/p}' "$0"; exit 2 ;;
esac

