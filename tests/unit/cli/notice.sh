#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Options of `cellspan notice` that it refuses, and those that it takes. TAP. No kernel has the pid 1.
top_builddir=${top_builddir-.}
n=0
bad=0

# says RC TEXT SENTENCE OPTION...: with these options the exit status is RC, and TEXT is in what is said.
says() {
    want=$1 text=$2 sentence=$3
    shift 3
    said=$("$top_builddir/cellspan" notice "$@" 1 2>&1)
    rc=$?
    n=$((n + 1))
    if [ "$rc" = "$want" ] && printf '%s\n' "$said" | grep -q -e "$text"; then
        echo "ok $n - $sentence"
    else
        echo "not ok $n - $sentence"
        printf '%s: %s\n' "$rc" "$said" | sed 's/^/# /'
        bad=1
    fi
}

says 2 "^cellspan notice: --text 'spot .*' is not UTF-8" "bytes that are no UTF-8 are refused" --text "$(printf 'spot \377\376')"
says 2 "^cellspan notice: --text 'spot .*' is not UTF-8" "and so is half of a character" --text "$(printf 'spot \303')"
says 1 'nothing of cellspan' "UTF-8 is fine" --text "$(printf 'f\303\274r immer')"
says 2 '--seconds soon' "seconds are a number" --seconds soon
echo "1..$n"
exit $bad
