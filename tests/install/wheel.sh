#!/bin/bash
# wheel.sh DIR PYTHON: runs `pip install .` in a fresh environment in DIR, as a new user would, and then a notebook with it.
# PYTHON makes the environment, and runs the client: it must have jupyter_client.
set -ex
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$1
client=$2
env=$dir/env

rm -rf "$dir"
mkdir -p "$dir"
"$client" -m venv "$env"
"$env/bin/python" -m pip install --disable-pip-version-check "$top"
[ "$("$env/bin/cellspan" --version)" = "cellspan $("$env/bin/python" -c \
    'import importlib.metadata as m; print(m.version("cellspan"))')" ]
"$env/bin/python" -c 'import cellspan'
"$env/bin/cellspan" install --sys-prefix
"$client" "$top/tests/install/cells.py" "$env"
[ -s "$env/share/bash-completion/completions/cellspan" ] && [ -s "$env/share/zsh/site-functions/_cellspan" ] &&
    [ -s "$env/share/fish/vendor_completions.d/cellspan.fish" ]
"$env/bin/cellspan" uninstall --sys-prefix
[ ! -e "$env/share/jupyter/kernels/cellspan" ]
"$env/bin/python" -m pip uninstall -y cellspan
cd "$env"    # what is above it may have any name
[ -z "$(find . -type f -path '*cellspan*' -not -name '*.pyc')" ]
