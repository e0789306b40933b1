#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# in_root.sh here|there|emulated: what tests/install/wheel.sh does within a root. `there` has an sshd, to which `here` sends ranks.
# `emulated` is too slow for more than a cell on two ranks.
export HOME=/trial PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_BREAK_SYSTEM_PACKAGES=1

# All files below these folders, but other packages' bytecode, which their first use writes.
files() { find "$@" \( -type f -o -type l \) ! -path '*/__pycache__/*' | sort; find "$@" -path '*cellspan*' | sort; }

python3 -m venv /env
/env/bin/pip install -q jupyter_client ipython comm cloudpickle matplotlib-inline debugpy
files /env >/trial/before
/env/bin/pip install cellspan
[ "$(ldd /env/bin/cellspan /env/bin/cellspan-kernel /env/libexec/cellspan/* | grep -cE 'not found|zmq|sodium|jansson|uuid|stdc')" = 0 ]

if [ "$1" = emulated ]; then
    CELLSPAN_LIBEXECDIR=/native RANKS=2 timeout 300 /env/bin/python /trial/cells.py /env
    exit
fi

if [ "$1" = there ]; then
    hostname there
    ssh-keygen -q -t ed25519 -N '' -f /trial/key
    printf 'Port 2222\nListenAddress 127.0.0.1\nAuthorizedKeysFile /trial/key.pub\nStrictModes no\nPidFile none\nPermitUserEnvironment no\n' \
        >/trial/sshd_config
    mkdir -p /run/sshd
    ssh-keygen -A
    exec /usr/sbin/sshd -D -e -f /trial/sshd_config
fi

# A notebook in the environment itself, and from the server of another one.
/env/bin/python /trial/cells.py /env
python3 -m venv /server
/server/bin/pip install -q jupyter_client
JUPYTER_PATH=/env/share/jupyter /server/bin/python /trial/cells.py /env

cat >/trial/script.py <<'EOF'
import os
import sys

print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], sys.prefix)
EOF
cd /trial
[ "$(/env/bin/cellspan run -n 4 script.py | grep -o 'rank . of 4 /env$' | sort | tr '\n' ,)" = \
    'rank 0 of 4 /env,rank 1 of 4 /env,rank 2 of 4 /env,rank 3 of 4 /env,' ]

# The other machine has the same wheel at the same place.
for _ in $(seq 300); do
    ! (exec 3<>/dev/tcp/127.0.0.1/2222) 2>/dev/null || break
    sleep 0.2
done
mkdir -p -m 700 /trial/.ssh
cp /there/key /trial/.ssh/id_ed25519
printf 'Host there\n  HostName 127.0.0.1\n  Port 2222\n  StrictHostKeyChecking no\n' >/trial/.ssh/config
JUPYTER_PATH=/env/share/jupyter /server/bin/python /trial/cells.py /env there

# A machine without cellspan gets it, and then has it.
ssh there "mv /env/libexec /env/libexec.away; mv /env/lib/cellspan /env/lib/cellspan.away"
for _ in 1 2; do
    JUPYTER_PATH=/env/share/jupyter /server/bin/python /trial/cells.py /env there
done
[ "$(ssh there ls /trial/.cache/cellspan | grep -c '^[0-9.]*-[a-z0-9_]*-[0-9a-f]\{16\}$')" = 1 ]
[ "$(ssh there 'echo /trial/.cache/cellspan/*/libexec/cellspan/*' | wc -w)" = 2 ]
ssh there 'rm -r /trial/.cache/cellspan; mv /env/libexec.away /env/libexec; mv /env/lib/cellspan.away /env/lib/cellspan'

# A machine whose C library is too old says so: here its programs are made to want a newer one.
ssh there /env/bin/python /trial/too_old.py /env/libexec/cellspan/cellspan-agent
if CELLSPAN_INSTALL=never JUPYTER_PATH=/env/share/jupyter /server/bin/python /trial/cells.py /env there 2>/trial/said; then exit 1; fi
cat /trial/said
grep "there did not come up.*GLIBC_9.28' not found" /trial/said
cp /env/bin/cellspan-kernel /trial/kernel
/env/bin/python /trial/too_old.py /trial/kernel
[ "$(/trial/kernel --version 2>&1 >/trial/printed | grep -c "GLIBC_9.28' not found")" = 1 ] && [ ! -s /trial/printed ]
rm /trial/kernel

# Gone without a trace.
/env/bin/pip uninstall -y cellspan
files /env >/trial/after
diff /trial/before /trial/after
[ -z "$(find / -xdev -path /wheels -prune -o -name '*cellspan*' -print)" ]

# For one user, with the system's Python.
/usr/bin/python3 -m pip --version || exit 0
cp /trial/cells.py /trial/script.py /tmp
setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/home/ann USER=ann bash -c 'set -ex
    cd
    /usr/bin/python3 -m pip install --user cellspan
    head -n 1 .local/bin/cellspan-python
    /server/bin/python /tmp/cells.py /usr
    PATH=$HOME/.local/bin:$PATH cellspan run -n 2 /tmp/script.py
    /usr/bin/python3 -m pip uninstall -y cellspan
    [ -z "$(find . -name "*cellspan*")" ]'
