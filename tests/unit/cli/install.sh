#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests of `cellspan install` with interpreters that are shell scripts. TAP.
top_builddir=${top_builddir-.}
here=$(cd "$top_builddir" && pwd)
cellspan=$here/cellspan
work=$here/install-test.$$
n=0
bad=0

ok() { # ok STATUS SENTENCE
    n=$((n + 1))
    if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; sed 's/^/# /' "$work/err"; bad=1; fi
}

# python NAME ANSWER: an interpreter that answers so, whatever it is asked.
python() {
    mkdir -p "$(dirname "$work/$1")"
    printf '#!/bin/sh\necho %s\n' "'$2'" >"$work/$1"
    chmod +x "$work/$1"
}

# said RC TEXT SENTENCE: the exit status is RC and one line of what was said has TEXT.
said() {
    [ "$rc" = "$1" ] && grep -q -e "$2" "$work/out" "$work/err"
    ok $? "$3"
}

install() {
    "$cellspan" install --prefix "$work/p" "$@" >"$work/out" 2>"$work/err"
    rc=$?
}

answer() { # answer VERSION OLD MANAGED LACKS
    echo "{\"version\": \"$1\", \"prefix\": \"$work/env\", \"executable\": \"\", \"old\": $2, \"managed\": $3, \"lacks\": [$4]}"
}

mkdir -p "$work/bin"
printf '#!/bin/sh\n' >"$work/bin/cellspan-kernel"
chmod +x "$work/bin/cellspan-kernel"
CELLSPAN_LIBEXECDIR=$work/bin
export CELLSPAN_LIBEXECDIR
cd "$work" || exit 1

python good "$(answer 3.12.1 false false)"
python env/bin/python "$(answer 3.9.1 false false)"
python old "$(answer 3.8.10 true false)"
python bare "$(answer 3.11.2 false false '"comm"')"
python system "$(answer 3.11.2 false true '"comm"')"
python odd 'hello'

install --python ./good --name a
said 0 "$work/p/share/jupyter/kernels/a" "a kernelspec is written below the prefix"
grep -q "\"$work/good\"" "$work/p/share/jupyter/kernels/a/kernel.json"
ok $? "its Python is absolute"
test -s "$work/p/share/jupyter/kernels/a/logo-64x64.png" && test -s "$work/p/share/jupyter/kernels/a/logo-svg.svg"
ok $? "its logos are there"
VIRTUAL_ENV=$work/env install
said 0 "$work/env/bin/python (Python 3.9.1)" "the active environment's Python is the default"
python path/python3 "$(answer 3.10.7 false false)"
rc=0
(unset VIRTUAL_ENV CONDA_PREFIX && PATH=$work/path:$PATH && install && exit "$rc") || rc=$?
said 0 "$work/path/python3 (Python 3.10.7)" "without one it is PATH's, before the one of the build"
ln -s good "$work/link"
install --python "$work/link" --name link
said 0 "$work/link " "a link stays a link"
install --python ./old
said 1 "old is Python 3.8.10; 3.9 or newer is needed" "a Python that is too old is refused"
install --python ./bare
said 1 "bare -m pip install comm" "what lacks comes with the command that installs it"
install --python ./system
said 1 "system -m venv" "a Python that the system manages comes with the way to an environment"
install --python ./odd
said 1 "odd does not work as a Python" "a program that is no Python is told apart"
install --python /bin/ls
said 1 "/bin/ls does not work as a Python: it ended with exit code 2" "so is another program"
! grep -q "import json" "$work/err"
ok $? "what that program says about the question is not shown"
install --python ./none
said 1 "python ./none: there is no such program" "so is one that isn't there"
install --user
said 2 "can't be used together" "two places at once are a usage error"
install --name 'a/b'
said 2 "a kernel's name has" "so is a name that is none"
"$cellspan" instal >"$work/out" 2>"$work/err"
rc=$?
said 2 "did you mean install?" "a misspelt command is answered with the nearest"
"$cellspan" --version >"$work/out" 2>"$work/err"
rc=$?
said 0 "^cellspan [0-9]" "the version can be asked for"
JUPYTER_DATA_DIR=$work/data "$cellspan" install --python ./good >"$work/out" 2>"$work/err"
rc=$?
said 0 "$work/data/kernels/cellspan" "without a place it is the user's"
"$cellspan" install --sys-prefix --python ./good >"$work/out" 2>"$work/err"
rc=$?
said 0 "$work/env/share/jupyter/kernels/cellspan" "--sys-prefix asks the interpreter"

echo "1..$n"
cd / && rm -rf "$work"
exit $bad
