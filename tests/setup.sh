# SPDX-License-Identifier: BSD-3-Clause
# setup.sh - functions of examples/run and of what runs tests: packages, an environment, the build. Source it from bash.
#
# Everything is made in .build/ of the checkout. Outside of it, only missing Debian packages are installed.
# PYTHON names the interpreter of the environment (default python3); pip is configured as usual (PIP_INDEX_URL, …).

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case $top in
*[[:space:]]*)
    echo "'$top': autotools can't build in a folder with white space in its path; move the checkout to one without" >&2
    exit 1
    ;;
esac
made=$top/.build
logs=$made/logs
venv=$made/venv
prefix=$made/prefix
mkdir -p "$logs"

# No kernel, setting or history of the user takes part.
export JUPYTER_PREFER_ENV_PATH=1 IPYTHONDIR=$made/ipython JUPYTER_CONFIG_DIR=$made/jupyter PYTHONNOUSERSITE=1
unset PYTHONPATH PYTHONHOME CELLSPAN_LIBEXECDIR CELLSPAN_PYTHONPATH JUPYTER_PATH JUPYTER_DATA_DIR

build_packages="build-essential autoconf automake pkg-config libzmq3-dev libjansson-dev libsodium-dev uuid-dev python3-dev python3-venv"
engine_packages="slurm-wlm munge openssh-server openssh-client tcsh iproute2 iptables procps util-linux runc podman python3 openmpi-bin mpich"
[ -d /usr/share/lmod ] || engine_packages="$engine_packages environment-modules" # apt would remove Lmod for it
test_packages="$build_packages chromium chromium-driver ninja-build xz-utils zsh fish $engine_packages"

say() { printf '== %s\n' "$*"; }

# step LOG COMMAND…: runs it with its output in .build/logs/LOG.log; the end of that is shown when it fails.
step() {
    local log=$logs/$1.log
    shift
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 40 "$log"
        say "failed: $* (all of it: ${log#"$top"/})"
        return 1
    fi
}

# The packages of "$@" that dpkg doesn't have; nothing where there is no dpkg.
missing_packages() {
    command -v dpkg-query >/dev/null || return 0
    local package
    for package; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "$package"
    done
}

# Installs what is missing of "$@", as root or through sudo.
install_packages() {
    local missing root=
    missing=$(missing_packages "$@" | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || return 0    # configure names what is missing elsewhere
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { say "as root: apt-get install $missing"; return 1; }
        root=sudo
        [ -t 0 ] || root="sudo -n"
        [ -z "${root#sudo}" ] && sudo -v
    fi
    say "Debian packages: $missing"
    # Tests start the daemons that they need: those that packages bring stay down while they are installed (a machine
    # without systemd could not start them, and the installation would fail).
    # shellcheck disable=SC2086  # words are meant
    step apt $root env DEBIAN_FRONTEND=noninteractive sh -c "policy=/usr/sbin/policy-rc.d
        if [ ! -e \$policy ]; then
            trap 'rm -f /usr/sbin/policy-rc.d' EXIT
            printf '#!/bin/sh\nexit 101\n' >\$policy && chmod 755 \$policy
        fi
        apt-get install -y --no-install-recommends $missing || { apt-get update && apt-get install -y --no-install-recommends $missing; }"
}

# Makes the environment, without packages.
make_empty_venv() {
    local python=${PYTHON:-python3}
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        { say "the pinned packages need Python 3.11 or newer: PYTHON=/path/to/python3 ${0#"$top"/}"; return 1; }
    [ -x "$venv/bin/python" ] || step venv "$python" -m venv "$venv"
}

# Makes the environment and installs a requirements file into it, once for each content of the files.
make_venv() {
    local wanted=$1 sum
    make_empty_venv || return 1
    sum=$(cat "$top/examples/requirements.txt" "$wanted" | cksum)
    [ "$(cat "$venv/.$(basename "$(dirname "$wanted")")" 2>/dev/null)" = "$sum" ] && return 0
    say "Python environment: ${wanted#"$top"/}"
    # Python keeps what it has compiled of a module that it imports. pip would compile all 16,000, most of which nobody imports.
    step pip "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile -r "$wanted" || return 1
    [ -z "${PYTHONDONTWRITEBYTECODE-}" ] || compile_packages
    echo "$sum" >"$venv/.$(basename "$(dirname "$wanted")")"
}

# mpi4py and PyPI's MPICH in a prefix of their own, .build/mpi4py: beside what is tested, they would bring another mpirun.
make_mpi4py() {
    local at=$made/mpi4py wanted="mpi4py==4.1.2 mpich==5.0.2"
    [ "$(cat "$at/.wanted" 2>/dev/null)" != "$wanted" ] || return 0
    rm -rf "$at"
    # shellcheck disable=SC2086  # a list of words
    step mpi4py "$venv/bin/python" -m pip install --disable-pip-version-check --no-deps --ignore-installed --prefix "$at" $wanted &&
        echo "$wanted" >"$at/.wanted"
}

# Where Python may keep nothing, each process would compile the same again. The packages' own tests, a quarter of it, nobody imports, and
# of some others hardly anything: a test compiles by itself what it needs of them.
compile_packages() {
    local none='/tests?/|/torch/testing/_internal/(common_[^d]|opinfo)|/selenium/.*/devtools/|/(fontTools|mypyc?|plotly/graph_objs|torchgen)/'
    "$venv/bin/python" -m compileall -q -j 0 -x "$none" "$venv/lib" >"$logs/bytecode.log" 2>&1 || :    # some files are for other versions of Python
}

# cached COMMAND…: what it compiles and ccache knows is not compiled again, where ccache is installed. It knows what another build has
# compiled, too, if both are two folders below their sources and call these ../.. as build_in, `make distcheck` and pip's build do.
cached() {
    local path=$PATH folder
    for folder in /usr/lib/ccache /usr/lib64/ccache; do
        [ ! -d $folder ] || path=$folder:$PATH
    done
    PATH=$path CCACHE_DIR=${CCACHE_DIR:-$made/ccache} CCACHE_NOHASHDIR=1 "$@"
}

# Makes configure where it is not there, or older than what it is made of.
make_configure() {
    if [ ! -x "$top/configure" ] || [ -n "$(find "$top/configure.ac" "$top/Makefile.am" "$top/m4" -newer "$top/configure")" ]; then
        (cd "$top" && step autoreconf autoreconf -fi)
    fi
}

# build_in FOLDER [configure's options…]: configures it when the options or configure itself changed, and builds.
build_in() {
    local dir=$made/$1 name=$1
    shift
    make_configure || return 1
    mkdir -p "$dir"
    if [ ! -e "$dir/Makefile" ] || [ "$*" != "$(cat "$dir/.options" 2>/dev/null)" ]; then
        (cd "$dir" && step "configure-$name" ../../configure "$@") || return 1
        printf %s "$*" >"$dir/.options"
    fi
    step "make-$name" cached make -C "$dir" -j"$(nproc 2>/dev/null || echo 2)"
}

# Builds what is released. "$@": other options of configure than the usual ones, with which examples and tests need one build only.
build_release() {
    [ $# != 0 ] || set -- --enable-werror --without-cuda --without-nccl
    say "build"
    build_in build --prefix="$prefix" --with-python="$venv/bin/python" "$@"
}

# Whether what is installed is what was built and what the sources have.
is_installed() {
    local stamp=$made/build/.installed
    [ -e "$stamp" ] && [ -x "$prefix/bin/cellspan" ] && [ -e "$venv/share/jupyter/kernels/cellspan/kernel.json" ] &&
        [ -z "$(find "$top" \( -path "$made" -o -path "$top/.git" -o -path "$top/bench" -o -path "$top/examples" -o -path "$top/tests" \
            -o -name __pycache__ \) -prune -o -type f -newer "$stamp" -print -quit)" ] &&
        [ -z "$(find "$made/build" -type f -newer "$stamp" ! -name .installing -print -quit)" ]
}

# The same, installs it into .build/prefix, and makes the kernel known to the environment's Jupyter. What is installed already stays as
# it is, since somebody may use it.
build_and_install() {
    build_release "$@" || return 1
    ! is_installed || return 0
    rm -f "$made/build/.installed"
    touch "$made/build/.installing"
    rm -rf "$prefix/lib/cellspan/python" # modules that are no longer there must not be found
    step install make -C "$made/build" install || return 1
    step kernelspec "$prefix/bin/cellspan" install --prefix "$venv" --python "$venv/bin/python" || return 1
    mv "$made/build/.installing" "$made/build/.installed"
}
