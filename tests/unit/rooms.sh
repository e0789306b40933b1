#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Reads the #include lines: folders use each other in one direction only, and pure folders have no sockets. Also checks
# the lists in Makefiles and the names of files. TAP.
cd "${top_srcdir-.}" || exit 1
n=0
bad=0

# nowhere FOLDERS PATTERN SENTENCE: no line of the folders' C files matches the pattern (an extended expression).
nowhere() {
    n=$((n + 1))
    # shellcheck disable=SC2086  # several folders
    found=$(find $1 -name '*.[ch]' -exec grep -EHn "$2" {} + 2>/dev/null)
    if [ -z "$found" ]; then
        echo "ok $n - $3"
    else
        echo "not ok $n - $3"
        echo "$found" | sed 's/^/# /'
        bad=1
    fi
}

# never FOLDERS PATTERN SENTENCE: none of them includes what the pattern matches.
never() {
    nowhere "$1" "^ *# *include *[<\"]($2)" "$3"
}

pure="protocol magics kernel/blobs kernel/comms kernel/debug kernel/merge kernel/status kernel/group kernel/notebook kernel/cell kernel/ranks kernel/dispatch"
sockets='zmq\.h|sys/socket\.h|sys/un\.h|netinet/|poll\.h|sys/poll\.h|sys/epoll\.h'

never "base" "(protocol|magics|kernel|worker|launchers|cli)/" "base uses no other folder"
never "protocol" "(magics|kernel|worker|launchers|cli)/" "protocol uses only base"
never "magics" "(protocol|kernel|worker|launchers|cli)/" "magics uses only base"
never "worker launchers" "(kernel|cli)/" "workers and launchers include nothing of the kernel"
never "worker/agent worker/collective worker/link launchers" "magics/" "of the workers, only the extension knows the magics"
never "cli" "(kernel/[^j]|worker/|launchers/)" "of the kernel, the command includes only its Jupyter side"
never "kernel" "(worker|launchers|cli)/" "the kernel includes nothing of the workers, the launchers and the command"
never "kernel/comms" "kernel/(jupyter|agents|blobs|notebook|cell|ranks|dispatch|engines|group|merge|status)/" "comms know nobody else"
never "kernel/debug kernel/merge kernel/status" "kernel/(jupyter|notebook|agents|blobs|cell|engines|group)/" "debug, merge and status don't know who calls them"
never "kernel/blobs" "kernel/(jupyter|agents|cell|engines|group|merge|status)/" "blobs do not know who schedules them"
never "kernel/agents" "kernel/(jupyter|notebook|cell|ranks|dispatch|engines|group|merge|status)/" "the connections to agents know no engine and no cell"
never "kernel/engines" "kernel/(jupyter|notebook|cell|ranks|dispatch|group|merge|status)/" "engines know no cell"
never "$pure" "$sockets|base/loop/|base/process\.h" \
    "pure folders have no sockets, no loop and no processes"
never "worker/agent/net worker/agent/blobs worker/agent/output worker/agent/processes worker/agent/gpu" "worker/agent/[a-z_]+\.h" \
    "the agent's folders don't know the agent"
nowhere "$pure" "getenv *\\(|base/settings\.h" "pure folders are given the values of settings"
never "base protocol magics kernel worker/agent worker/link launchers cli" "Python\.h" "only the extension knows Python"
never "kernel/notebook kernel/cell kernel/ranks" "kernel/dispatch/" "a cell does not know who calls it"
never "kernel/notebook" "kernel/cell/" "the notebook does not know how a cell runs"
never "kernel/notebook kernel/cell" "kernel/ranks/" "%ranks stands above the cell"
never "worker/ext worker/link" "zmq\.h" "there is no ZeroMQ in users' processes"

n=$((n + 1))
missing=
for module in $(find worker/python/cellspan -name '*.py'); do
    grep -q "$module" worker/python/Local.mk || missing="$missing $module"
done
if [ -z "$missing" ]; then
    echo "ok $n - every module of the Python package is installed"
else
    echo "not ok $n - every module of the Python package is installed"
    echo "# not in worker/python/Local.mk:$missing"
    bad=1
fi

# The name of a file says what it is about. So two folders have the same one only for the same subject, also if one file is C and the
# other is Python. The modules in _dropin/ have the names of those that they replace.
# cut_ranks: CUT_RANKS, in the kernel and in the agent; ranks: %ranks, as text and its answers; stacks: those of workers, and how to ask for them
one_subject='cut_ranks|ranks|stacks|main|main__|private|init__'
# One side is the kernel's, the agent's or a launcher's, the other is Python's.
both_languages='broadcast|capture|check|client|comms|debugger|exchange|follow|home|launcher|payload|subshells|worker|world_env|zygote'
# twice PATTERN ALLOWED: names that files which match have in several folders.
twice() (
    set -f
    # shellcheck disable=SC2086  # several words
    find base protocol magics kernel worker launchers cli -path '*/_dropin/*' -prune -o \( $1 \) -print |
        sed 's|\(.*\)/_*\([^/]*\)\.[a-z]*$|\2 \1|' | sort -u |
        awk '{ at[$1] = at[$1] " " $2; folders[$1]++ } END { for (name in at) if (folders[name] > 1) print name ":" at[name] }' |
        grep -Ev "^($2):"
)
n=$((n + 1))
twice=$(twice '-name *.[ch]' "$one_subject"; twice '-name *.py' "$one_subject"; twice '-name *.[ch] -o -name *.py' "$one_subject|$both_languages")
if [ -z "$twice" ]; then
    echo "ok $n - no two folders have files of the same name about different subjects"
else
    echo "not ok $n - no two folders have files of the same name about different subjects"
    echo "$twice" | sed 's/^/# /'
    bad=1
fi

# The first line of a file behind that of its license.
head_of() { sed -n -e '1{/SPDX-License-Identifier: [A-Za-z0-9.-]* \*\/$/d;}' -e 'p;q' "$1"; }
n=$((n + 1))
headless=$(find base protocol magics kernel worker launchers cli -name '*.c' | while read -r file; do
    case $(head_of "$file") in '/*'*) continue ;; esac
    case $(head_of "${file%.c}.h" 2>/dev/null) in '/*'*) continue ;; esac
    echo "$file"
done)
if [ -z "$headless" ]; then
    echo "ok $n - every C file, or the header beside it, begins with what it is for"
else
    echo "not ok $n - every C file, or the header beside it, begins with what it is for"
    echo "$headless" | sed 's/^/# /'
    bad=1
fi

echo "1..$n"
exit $bad
