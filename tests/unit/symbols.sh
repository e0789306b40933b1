#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Reads the symbols of pure code: a simulator must be able to link it, so it calls nothing that opens a socket, starts a process,
# waits, or reads a clock, the environment or random numbers. TAP.
cd "${top_builddir-.}" || exit 1
outside='zmq_|fork|vfork|posix_spawn|socket|bind$|connect$|listen$|accept|send(to|msg|mmsg)?$|recv|p?poll|epoll|select|clock_gettime|clock$'
outside="$outside|time$|gettimeofday|nanosleep|u?sleep|kill|wait|pthread|getrandom|random"
calls="$outside|exec|pipe2?$|open|read$|write$|sysconf|getenv|getpid|gethostname|loop_|process_|clock_system"
n=0
bad=0

# none SENTENCE WORDS FILE...: no file has an undefined symbol like these.
none() {
    n=$((n + 1))
    sentence=$1
    words=$2
    shift 2
    found=$(nm -u -A "$@" 2>&1 | sed 's/@.*//' | grep -E " (__)?($words)|No such file")
    if [ $# -gt 0 ] && [ -z "$found" ]; then
        echo "ok $n - $sentence"
    else
        echo "not ok $n - $sentence"
        echo "$found" | sed 's/^/# /'
        bad=1
    fi
}

# shellcheck disable=SC2046  # the list's words are files
none "pure code calls no socket, process, clock or random number" "$calls" $(cat tests/unit/pure.list)
none "nor does what it needs of base/ and protocol/" "$outside" tests/unit/pure.t
echo "1..$n"
exit $bad
