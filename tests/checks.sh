# SPDX-License-Identifier: BSD-3-Clause
# checks.sh - functions of tests/run, tests/package and tests/clients: steps that are timed and counted. Source it from bash.
#
# Each of the three sets `checks` to its name, calls steps and ends with finish. Logs are in .build/logs; times-NAME.txt there has
# what each step took, and the slowest tests. Their last line is "N passed, N failed"; the exit status is 0 if none failed.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

passed=0
failed=0
times=$logs/times-$checks
rm -rf "$times"
mkdir -p "$times"
head -n 1 /proc/stat >"$times/processors"

count() {
    passed=$((passed + $1))
    failed=$((failed + $2))
    say "$3: $1 passed, $2 failed"
}

finish() {
    head -n 1 /proc/stat >>"$times/processors"
    "${PYTHON:-python3}" "$top/tests/times.py" "$times" | tee "$times.txt"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
    exit
}

# timed NAME COMMAND…: notes the seconds that it took, and those of processors that it and its children had.
timed() {
    local name=$1 began=$EPOCHREALTIME
    shift
    (
        "$@"
        rc=$?
        times >"$times/$name.times"
        echo "$began $EPOCHREALTIME" >>"$times/$name.times"
        exit $rc
    )
}

# What must work before anything can be tested.
need() {
    timed "$@" && return 0
    failed=$((failed + 1))
    wait    # for what runs beside
    finish
}

# What is needed to build: packages, an environment that is still empty, and configure.
tools() {
    # shellcheck disable=SC2086  # a list of words
    need packages install_packages $test_packages
    timed ccache install_packages ccache || say "without ccache, what was compiled is compiled again"
    need venv make_empty_venv
    need configure make_configure
}

# prepare: what must be there before tests run. Of two commands that begin at the same time, one makes it.
prepare() {
    exec {preparing}>"$made/.preparing"
    ! command -v flock >/dev/null || flock "$preparing"
    need environment make_venv "$top/tests/requirements.txt"
    need build build_and_install
    exec {preparing}>&-
}

# build_taps NAME FOLDER: builds the tests of make check there.
build_taps() {
    timed "build-tests-$1" cached make -C "$2" -k -j"$(nproc 2>/dev/null || echo 2)" check TESTS= >"$logs/check-$1.log" 2>&1 </dev/null
}

# run_tap NAME FOLDER [WORD…]: make check there.
run_tap() {
    local name=$1 folder=$2 log=$logs/check-$1.log
    shift 2
    # Most of the tests' time they wait, so four may run at once.
    timed "check-$name" timeout 1800 make -C "$folder" -k -j4 check VERBOSE=1 "$@" >"$log" 2>&1 </dev/null
    echo $? >"$log.rc"
    # Where it hangs, this says who.
    [ "$(cat "$log.rc")" != 124 ] || ps -eo pid,ppid,stat,wchan:24,etimes,args >>"$log"
}

# count_tap NAME FOLDER [WORD…]: what came of them. Automake counts each line of TAP; a program that ends too early is an ERROR. If one to
# three failed, their programs run once more, as Python's tests do. That changes no count.
count_tap() {
    local name=$1 folder=$2 log=$logs/check-$1.log good bad
    shift 2
    # With VERBOSE the log of each test is shown too, so only the summary counts.
    good=$(awk '/^Testsuite summary/ { n = 0 } /^# PASS:/ { n += $3 } END { print n + 0 }' "$log")
    bad=$(awk '/^Testsuite summary/ { n = 0 } /^# (FAIL|XPASS|ERROR):/ { n += $3 } END { print n + 0 }' "$log")
    if [ "$(cat "$log.rc" 2>/dev/null)" != 0 ] && [ "$bad" = 0 ]; then
        bad=1
        tail -n 40 "$log"
    elif [ "$bad" != 0 ]; then
        grep -E '^(FAIL|XPASS|ERROR): ' "$log" | sort -u
        grep -lE '^:test-result: *(FAIL|XPASS|ERROR)' -r --include='*.trs' "$folder" | sed 's/trs$/log/' | xargs tail -n 40
        if [ "$bad" -le 3 ] && timed "check-$name-again" timeout 600 make -C "$folder" recheck VERBOSE=1 "$@" >"$log.again" 2>&1 </dev/null; then
            say "make check ($name): what failed passes alone: it depends on what else runs, or on luck"
        fi
    fi
    count "$good" "$bad" "make check ($name)"
}

# run_pytests NAME LIMIT WORD…: LIMIT in seconds for all of it.
run_pytests() {
    local name=$1 limit=$2
    shift 2
    rm -rf "$logs/pytest-$name.xml" "$logs/pytest-$name.rc" "$logs/pytest-$name.cache"
    pytests "$name" "$limit" "$@" >"$logs/pytest-$name.log" 2>&1 </dev/null
    echo $? >"$logs/pytest-$name.rc"
    printf '%s\0' "$@" >"$logs/pytest-$name.words"
    ln -sf "../pytest-$name.xml" "$times/"
}

# pytests STEP LIMIT WORD…: pytest itself. A step NAME-again shares the cache of NAME, where pytest notes what failed.
pytests() {
    local step=$1 limit=$2
    shift 2
    # Without what other packages bring along for pytest: anyio's alone imports half a second in each process.
    (cd "$top" && PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 CELLSPAN_TEST_PREFIX=$venv PATH=$venv/bin:$prefix/bin:$PATH timed "pytest-$step" timeout -k 10 "$limit" \
        "$venv/bin/python" -m pytest -p xdist -p timeout -v -rfEs -o cache_dir="$logs/pytest-${step%-again}.cache" --timeout 300 \
        --junitxml="$logs/pytest-$step.xml" "$@")
}

# count_pytests NAME: what came of them. One to three tests that failed run once more, one after the other, so that the log says whether
# they fail alone, too. That changes no count.
count_pytests() {
    local log=$logs/pytest-$1.log counts words=()
    counts=$("$venv/bin/python" "$top/tests/count.py" "$logs/pytest-$1.xml" 2>/dev/null) || counts="0 1"
    # A pytest that ends before all tests have run may leave counts without a failure.
    [ "${counts#* }" != 0 ] || [ "$(cat "$logs/pytest-$1.rc" 2>/dev/null)" = 0 ] || counts="${counts% *} 1"
    if [ "${counts#* }" != 0 ]; then
        grep -E '^(FAILED|ERROR) ' "$log" || tail -n 40 "$log"
        if [ "${counts#* }" -le 3 ] && [ "$(cat "$logs/pytest-$1.rc" 2>/dev/null)" = 1 ]; then
            mapfile -t -d '' words <"$logs/pytest-$1.words"
            if pytests "$1-again" 900 "${words[@]}" -n 0 --last-failed --last-failed-no-failures none >"$logs/pytest-$1-again.log" 2>&1 </dev/null; then
                say "pytest ($1): what failed passes alone: it depends on what else runs, or on luck"
            else
                say "pytest ($1): what failed fails alone, too"
            fi
            grep -E '^E  ' "$log" | head -n 60
        fi
    fi
    # shellcheck disable=SC2086  # two numbers
    count $counts "pytest ($1)"
}

# one NAME COMMAND…: a whole command as one test.
one() {
    local name=$1
    if timed "$name" step "$@"; then count 1 0 "$name"; else count 0 1 "$name"; fi
}
