#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# pip.sh DIR PYTHON WHAT [OPTION…]: installs the checkout, a wheel or an sdist with pip in a fresh environment in DIR, as a new user would,
# and runs a notebook with it. OPTION is for pip. PYTHON makes the environment, and runs the client in its own one: it must have jupyter_client.
set -ex
unset PYTHONDONTWRITEBYTECODE    # what Python leaves must be gone in the end
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(realpath -m "$1")
client=$2
env=$dir/env
spec=$env/share/jupyter/kernels/cellspan/kernel.json

rm -rf "$dir"
mkdir -p "$dir"
"$client" -m venv "$env"
"$env/bin/python" -m pip install --disable-pip-version-check "${@:3}"
[ "$("$env/bin/cellspan" --version)" = "cellspan $("$env/bin/python" -c \
    'import importlib.metadata as m; print(m.version("cellspan"))')" ]
[ "$("$env/bin/python" -c 'import cellspan; print("cellspan", cellspan.__version__)')" = "$("$env/bin/cellspan" --version)" ]
"$env/bin/python" -c 'import cellspan, cellspan.torch, importlib; importlib.reload(cellspan).run'
# The package is there once, and nothing that was built names the folder of the build.
[ "$(find "$env" -path '*cellspan*' -name _api.py | wc -l)" = 1 ]
if grep -laF -e "$top" -e /tmp/cellspan-build- "$env"/bin/cellspan{,-kernel} "$env"/libexec/cellspan/* "$env"/lib/cellspan/python/cellspan/_link.abi3.so; then exit 1; fi
[ -s "$env/share/doc/cellspan/README.md" ] && [ -s "$env/share/doc/cellspan/LICENSE" ]
case $3 in
*.whl)
    [ "$(ldd "$env"/bin/cellspan{,-kernel} "$env"/libexec/cellspan/* | grep -cE 'not found|zmq|sodium|jansson|uuid|stdc')" = 0 ]
    # Each program says by itself that a C library is too old.
    for program in "$env"/bin/cellspan{,-kernel} "$env"/libexec/cellspan/*; do
        cp "$program" "$dir/old"
        "$client" "$top/tests/install/too_old.py" "$dir/old"
        if "$dir/old" --version >"$dir/said" 2>&1; then exit 1; fi
        [ "$(wc -l <"$dir/said")" = 1 ] && grep "GLIBC_9.28' not found" "$dir/said"
    done
    ;;
esac
# The wheel's kernelspec is as `cellspan install` writes it, but for the paths.
cp "$spec" "$dir/wheels.json"
JUPYTER_PATH=$env/share/jupyter "$client" "$top/tests/install/cells.py" "$env"
"$env/bin/cellspan" install --sys-prefix
"$client" -c 'import json, sys
ours, theirs = (json.load(open(path)) for path in sys.argv[1:3])
assert theirs["argv"][0] == sys.argv[3] + "/bin/cellspan-kernel", theirs
assert ours.pop("argv")[1:] == theirs.pop("argv")[-2:] == ["-f", "{connection_file}"]
assert ours == theirs, (ours, theirs)' "$dir/wheels.json" "$spec" "$env"
JUPYTER_PATH=$env/share/jupyter "$client" "$top/tests/install/cells.py" "$env"
[ -s "$env/share/bash-completion/completions/cellspan" ] && [ -s "$env/share/zsh/site-functions/_cellspan" ] &&
    [ -s "$env/share/fish/vendor_completions.d/cellspan.fish" ]
"$env/bin/cellspan" uninstall --sys-prefix
[ ! -e "$env/share/jupyter/kernels/cellspan" ]
"$env/bin/python" -m pip uninstall -y cellspan
cd "$env"    # what is above it may have any name
[ -z "$(find . -name '*cellspan*')" ]
