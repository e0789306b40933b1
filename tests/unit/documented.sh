#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Checks that the docs list exactly the environment variables that the product reads, and the options of its magics. TAP.
built=$(cd "${top_builddir-.}" && pwd)
cd "${top_srcdir-.}" || exit 1
n=0
bad=0

# same SENTENCE READ WRITTEN: two lists of words, sorted, are equal.
same() {
    n=$((n + 1))
    if [ -n "$2" ] && [ "$2" = "$3" ]; then
        echo "ok $n - $1"
        return
    fi
    echo "not ok $n - $1"
    for word in $2; do
        echo "$3" | grep -qxe "$word" || echo "# not in the docs: $word"
    done
    for word in $3; do
        echo "$2" | grep -qxe "$word" || echo "# in the docs alone: $word"
    done
    bad=1
}

# words PATTERN FILES: what an extended expression matches there.
words() {
    pattern=$1
    shift
    grep -rhoE --include='*.c' --include='*.h' --include='*.py' --include='*.md' --include='*.1' -e "$pattern" "$@"
}

# rows FILE BEGIN: the options that open the rows of the table that follows a line.
rows() {
    awk -v begin="$2" '$0 == begin { on = 1 } on && /^\| `-/ { print; seen = 1 } on && seen && /^$/ { exit }' "$1" |
        cut -d'|' -f2 | grep -oE -e '--[a-z-]+' | sort -u
}

read_there=$(words '"CELLSPAN_[A-Z_]*[A-Z]' base protocol magics kernel worker launchers cli | tr -d '"' | sort -u)
same "every variable that is read is in docs/limits.md, and no other" "$read_there" \
    "$(grep -oE 'CELLSPAN_[A-Z_]*[A-Z]' docs/limits.md | sort -u)"

n=$((n + 1))
unknown=$(words 'CELLSPAN_[A-Z_]*[A-Z]' docs README.md | sort -u | grep -v '^CELLSPAN_TEST_' | while read -r name; do
    echo "$read_there" | grep -qx "$name" || echo "$name"
done)
if [ -z "$unknown" ]; then
    echo "ok $n - no page or manual names a variable that nobody reads"
else
    echo "not ok $n - no page or manual names a variable that nobody reads"
    echo "$unknown" | sed 's/^/# /'
    bad=1
fi

# The rows of base/settings.h with their defaults, which docs/limits.md writes in parentheses.
rows_there=$("$built/tests/unit/base/settings.t" rows)
same "every setting of base/settings.h has a row in docs/limits.md, and no other variable has" "$(echo "$rows_there" | cut -f1 | sort)" \
    "$(grep '^| `' docs/limits.md | cut -d'|' -f2 | grep -oE 'CELLSPAN_[A-Z_]*' | sort)"

n=$((n + 1))
wrong=$(echo "$rows_there" | while IFS='	' read -r name standard; do
    [ -z "$standard" ] || grep "^| \`$name\` " docs/limits.md | grep -qE "\(\`?$standard\`?[,;)]" || echo "# $name: $standard"
done)
if [ -z "$wrong" ]; then
    echo "ok $n - with its default"
else
    echo "not ok $n - with its default"
    echo "$wrong"
    bad=1
fi

# The rows of the magics' tables: magic, option or command, its name, where it is of use.
magics_there=$("$built/tests/unit/magics/words.t" rows)
# of MAGIC KIND [WHERE]: the third fields.
of() { echo "$magics_there" | awk -F'\t' -v m="$1" -v k="$2" -v w="$3" '$1 == m && $2 == k && index($4, w) { print $3 }' | sort -u; }

n=$((n + 1))
unnamed=$(echo "$magics_there" | awk -F'\t' '$2 == "magic" { print "%" $1 }' | while read -r name; do
    grep -qE "\`$name(\`| )" docs/guide.md || echo "$name"
done)
if [ -n "$magics_there" ] && [ -z "$unnamed" ]; then
    echo "ok $n - docs/guide.md names every magic"
else
    echo "not ok $n - docs/guide.md names every magic"
    echo "$unnamed" | sed 's/^/# /'
    bad=1
fi

options=$(of distribute option | sed 's/^/--/')
same "every option of %%distribute is in docs/guide.md, and no other" "$options" "$(rows docs/guide.md '## Options')"

# Those that need a cell, or a notebook, are not the command's; its own is --python.
command=$( (of distribute option run | sed 's/^/--/'; echo --python) | sort -u)
same "every option of cellspan run is in its manual, and no other" "$command" \
    "$(sed -n '/^\.SH OPTIONS/,/^\.SH EXAMPLES/p' docs/man/cellspan-run.1 | grep -A1 '^\.TP' | sed 's/\\-/-/g' | grep -oE -e '--[a-z-]+' | sort -u)"

same "every command of %ranks is in docs/guide.md, and no other" "$(of ranks command)" \
    "$(grep -oE '[`]%ranks [a-z]+|^%ranks [a-z]+' docs/guide.md | cut -d' ' -f2 | sort -u)"

# Files that READMEs, docs/architecture.md and CONTRIBUTING.md name: NAME.c, NAME.h, NAME.py, NAME.[ch]; the last is two files.
n=$((n + 1))
folders="base protocol magics kernel worker launchers cli tests bench"
# shellcheck disable=SC2086  # several folders
files=$(find $folders -name '*.[ch]' -o -name '*.py' | sed 's,.*,/& ,')
# shellcheck disable=SC2086
wrong=$(for page in docs/architecture.md CONTRIBUTING.md $(find $folders -name README.md | grep -v '^tests/suites/'); do
    { grep -oE '[A-Za-z_][A-Za-z0-9_./-]*\.([ch]|py)\>' "$page"
        grep -oE '[A-Za-z_][A-Za-z0-9_./-]*\.\[ch\]' "$page" | sed 's/\[ch\]$/c/'
        grep -oE '[A-Za-z_][A-Za-z0-9_./-]*\.\[ch\]' "$page" | sed 's/\[ch\]$/h/'; } | sort -u | while read -r name; do
        case $name in Python.h | cuda.h | file.py | kernel_bench.py | fanout_bench.py) continue ;; esac # not of this tree
        echo "$files" | grep -qF "/$name " || echo "# $page: $name"
    done
done)
if [ -z "$wrong" ]; then
    echo "ok $n - every file that READMEs and docs/architecture.md name exists"
else
    echo "not ok $n - every file that READMEs and docs/architecture.md name exists"
    echo "$wrong"
    bad=1
fi

# The READMEs that have tables of files name each C file of their folders.
n=$((n + 1))
wrong=$(for readme in kernel launchers worker/agent worker/agent/gpu worker/collective; do
    find "$readme" -name '*.c' | grep -Ev '^kernel/(jupyter|dispatch|ranks|cell|notebook|group|status)/' | while read -r file; do
        case $readme:$file in worker/agent:worker/agent/gpu/* | worker/collective:*/plain/*) continue ;; esac
        base=${file##*/}
        grep -qE "(^|[^a-z_])${base%.c}([^a-z_]|\$)" "$readme/README.md" || echo "# $readme/README.md lacks $base"
    done
done)
if [ -z "$wrong" ]; then
    echo "ok $n - every C file of a folder with a table of files is in its README"
else
    echo "not ok $n - every C file of a folder with a table of files is in its README"
    echo "$wrong"
    bad=1
fi

echo "1..$n"
exit $bad
