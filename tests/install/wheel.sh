#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/install/wheel.sh WHEEL [SUITE…]: tries the wheel where there is nothing but Python and pip: in a new root of each of these
# suites of Debian (bullseye, which has glibc 2.31 and Python 3.9, and sid, which has the newest). As root; it needs debootstrap.
# On x86_64, a wheel for aarch64 runs a cell on two ranks in bookworm, by qemu.
#
# The roots are made once and stay in .build/roots; a copy of them is used.
. "$(dirname "$0")/../setup.sh"
set -e
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
machine=$(uname -m) debian=''
case $wheel in
*_aarch64.whl) [ "$machine" = aarch64 ] || debian=arm64 ;;
*_x86_64.whl) [ "$machine" = x86_64 ] || { say "$wheel is not for this machine"; exit 2; } ;;
esac
[ $# != 0 ] || if [ -n "$debian" ]; then set -- bookworm; else set -- bullseye sid; fi
roots=$made/roots
mkdir -p "$roots"
install_packages debootstrap openssh-client iproute2 util-linux

# What is installed there: the root's own pip fetches it, before the root loses the network.
wheels() {
    local root=$roots/$1
    [ ! -d "$roots/$1-wheels" ] || return 0
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    mkdir -p "$root/etc/ssl/certs"
    cp -L "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/certs/ca-certificates.crt"
    # shellcheck disable=SC2046  # a list of words
    env -u PIP_FIND_LINKS ${PIP_CERT:+PIP_CERT=/etc/ssl/certs/ca-certificates.crt} chroot "$root" python3 -m pip download --disable-pip-version-check --only-binary :all: \
        --dest /wheels jupyter_client pyzmq $(sed '/^#/d' "$top/worker/python/requirements.txt")
    [ -n "$(ls "$root/wheels")" ] && mv "$root/wheels" "$roots/$1-wheels"
}

# emulated SUITE: the kernel of this machine is told who runs such programs, for as long as this takes.
emulated() {
    local root=$roots/$1-$debian
    install_packages qemu-user-static binfmt-support
    if [ ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]; then
        update-binfmts --enable qemu-aarch64
        trap 'update-binfmts --disable qemu-aarch64' EXIT
    fi
    [ -d "$root" ] || {
        step "root-$1-$debian" debootstrap --arch "$debian" --variant=minbase --include=python3-minimal,python3-pip,python3-venv "$1" "$root.new" "$("$top/packaging/archive" --mirror)"
        mv "$root.new" "$root"
    }
    step "wheels-$1-$debian" wheels "$1-$debian"
    rm -rf "$roots/trial"
    cp -a "$root" "$roots/trial"
    mkdir "$roots/trial/wheels" "$roots/trial/trial"
    cp "$root-wheels"/* "$wheel" "$roots/trial/wheels"
    cp "$top/tests/install/cells.py" "$top/tests/install/in_root.sh" "$roots/trial/trial"
    # qemu refuses what makes the agent the parent of ranks whose own parent has ended. A process keeps it over exec, so a program
    # of this machine asks for it in the agent's place.
    mkdir "$roots/trial/native"
    printf '%s\n' '#include <sys/prctl.h>' '#include <unistd.h>' 'int main(int argc, char **argv) { (void)argc;' \
        'return prctl(PR_SET_CHILD_SUBREAPER, 1) || execv("/env/libexec/cellspan/cellspan-agent", argv); }' |
        gcc -static -x c -o "$roots/trial/native/cellspan-agent" -
    say "the wheel on $1 for $debian: $(chroot "$root" python3 --version)"
    timeout 900 unshare --net --mount --pid --fork --kill-child bash -ec '
        ip link set lo up
        cd "$1"
        mount --bind . .
        mount -t proc proc proc
        mount --rbind /dev dev
        mount -t tmpfs tmpfs dev/shm
        chroot . env -i /bin/bash -ex /trial/in_root.sh emulated' wheel "$roots/trial" </dev/null || { say "failed on $1 for $debian"; exit 1; }
    rm -rf "$roots/trial"
}

if [ -n "$debian" ]; then
    for suite; do
        emulated "$suite"
    done
    set -- "$@" "(for $debian)"
    say "the wheel works on: $*"
    exit
fi

for suite; do
    [ -d "$roots/$suite" ] || {
        step "root-$suite" debootstrap --variant=minbase --include=python3-minimal,python3-pip,python3-venv,openssh-server,openssh-client \
            "$suite" "$roots/$suite.new" "$("$top/packaging/archive" --mirror)"
        mv "$roots/$suite.new" "$roots/$suite"
    }
    step "wheels-$suite" wheels "$suite"
    rm -rf "$roots/trial"
    mkdir "$roots/trial"
    for machine in here there; do
        cp -a "$roots/$suite" "$roots/trial/$machine"
        mkdir "$roots/trial/$machine/wheels" "$roots/trial/$machine/trial"
        cp "$roots/$suite-wheels"/* "$wheel" "$roots/trial/$machine/wheels"
        cp "$top"/tests/install/{cells.py,in_root.sh,too_old.py} "$roots/trial/$machine/trial"
        printf 'root:x:0:0::/trial:/bin/bash\nann:x:1000:1000::/home/ann:/bin/bash\nsshd:x:101:65534::/run/sshd:/bin/false\n' \
            >"$roots/trial/$machine/etc/passwd"
        install -d -o 1000 -g 1000 "$roots/trial/$machine/home/ann"
    done
    say "the wheel on $suite: $(chroot "$roots/$suite" python3 --version), $(chroot "$roots/$suite" ldd --version | head -n 1)"
    # The two machines have a network of their own together. All ends with the first process.
    timeout 900 unshare --net --mount --pid --fork --kill-child bash -ec '
        ip link set lo up
        for machine in there here; do
            cd "$1/$machine"
            mount --bind . .
            mount -t proc proc proc
            mount --rbind /dev dev
            mount -t tmpfs tmpfs dev/shm
            mount -t tmpfs tmpfs tmp
            mount -t tmpfs tmpfs run
        done
        mkdir "$1/here/there"
        mount --bind "$1/there/trial" "$1/here/there"
        unshare --uts --pid --fork --kill-child chroot "$1/there" env -i /bin/bash -ex /trial/in_root.sh there &
        chroot "$1/here" env -i /bin/bash -ex /trial/in_root.sh here
    ' wheel "$roots/trial" </dev/null || { say "failed on $suite"; exit 1; }
    rm -rf "$roots/trial"
done
say "the wheel works on: $*"
