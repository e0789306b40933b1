/* SPDX-License-Identifier: BSD-3-Clause */
/* environment_modules.c - see environment_modules.h. `module` is a function of the shell that
 * changes its environment, so it runs in the script's own shell. Start files are tried in a
 * subshell first: some are written for other shells, and would end this one. */
#include "launchers/environment_modules.h"

#include <string.h>

#include "base/settings.h"
#include "launchers/agent_script.h"
#include "launchers/launcher.h"

/* The files that define `module`, in the order in which they are tried. Those of /etc come before
 * those of the programs themselves, for a site adds there where its modules are. */
#define START_FILES                                                                                \
    "\"${LMOD_PKG:+$LMOD_PKG/init/sh}\" \"${MODULESHOME:+$MODULESHOME/init/sh}\" "                 \
    "/etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /etc/profile.d/modules.sh "                 \
    "/usr/share/lmod/lmod/init/sh /usr/share/modules/init/sh /usr/share/Modules/init/sh "          \
    "/etc/profile"
#define FIND                                                                                        \
    "command -v module >/dev/null 2>&1 || for p in " START_FILES "; do "                            \
    "if [ -f \"$p\" ] && [ -r \"$p\" ] && "                                                         \
    "(. \"$p\"; command -v module) </dev/null >/dev/null 2>&1; then . \"$p\" </dev/null >&2 || :; " \
    "set +eu; break; fi; done; "
#define FUNCTIONS "nomod() { printf '%s\\n' '" SCRIPT_MARK MODULES_FAILED "'\"$1\"; exit 126; }; "
/* $M: the names. */
#define NO_COMMAND                                                                                 \
    "command -v module >/dev/null 2>&1 || nomod \"there is no command 'module', and "              \
    "CELLSPAN_MODULES is $M: none of its usual start files is there, and /etc/profile does not "   \
    "define it; install Lmod or Environment Modules there, let /etc/profile.d/modules.sh define "  \
    "it, or set CELLSPAN_MODULES=none\"; "
/* For what the command says. If it ends this shell, that is shown, too. */
#define MAKE_FILE                                                                                  \
    "t=$(mktemp 2>/dev/null || mktemp -p /dev/shm 2>/dev/null) || "                                \
    "nomod \"no file can be made in /tmp or /dev/shm, for what module says\"; "                    \
    "exec 7>&2; trap 'cat \"$t\" >&7; rm -f \"$t\"' EXIT; "
/* Version 3 of Environment Modules has no exit status: its errors are ":ERROR:" and a number. */
#define JUDGE                                                                                               \
    "r=$?; trap - EXIT; exec 7>&-; case $(cat \"$t\") in "                                                  \
    "*:ERROR:[0-9]*|*'detected the following error'*) r=1;; esac; "                                         \
    "if [ $r = 0 ]; then cat \"$t\" >&2; rm -f \"$t\"; else "                                               \
    "e=$(sed -n '/[eE][rR][rR][oO][rR]/,/^[[:space:]]*$/p' \"$t\" | tr -s '[:space:]' ' ' | "               \
    "cut -c 1-300); [ \"$e\" ] || e=$(grep . \"$t\" | tail -n 1 | cut -c 1-300); rm -f \"$t\"; "            \
    "e=${e# }; e=${e% }; nomod \"'module load $M' failed${e:+: $e}; 'module avail' shows which there are: " \
    "set CELLSPAN_MODULES, or modules in the file of settings, to those\"; fi; "

const char *modules_told(void)
{
    const char *const text = setting_text(SETTING_MODULES);

    return text && strcmp(text, "none") != 0 ? text : NULL;
}

int modules_check(const char *names, struct err *err)
{
    struct buf wanted = BUF_INIT;
    int rc = 0;

    if (names && setting_check(SETTING_MODULES, names) < 0)
        rc = err_set(err, "%s=%.80s: %s", setting_rows[SETTING_MODULES].name, names,
                     setting_wanted(SETTING_MODULES, &wanted) == 0 ? wanted.p : "names are wanted");
    buf_release(&wanted);
    return rc;
}

/* Adds the names as words. They need no quotes, and get them if they do. */
static int add_names(struct buf *out, const char *names)
{
    struct words words = WORDS_INIT;
    struct err err = { "" };
    int rc = words_split(&words, names, &err);

    for (size_t i = 0; rc == 0 && i < words.n; i++)
        rc = buf_add_text(out, " ") < 0 || words_quote(out, words.v[i]) < 0 ? -1 : 0;
    words_release(&words);
    return rc;
}

int modules_add(struct buf *out, const char *names, struct err *err)
{
    if (!names)
        return 0;
    if (modules_check(names, err) < 0)
        return -1;
    return buf_add_text(out, FUNCTIONS FIND "M=") < 0 || words_quote(out, names) < 0 ||
                   buf_add_text(out, "; " NO_COMMAND MAKE_FILE "module load") < 0 ||
                   add_names(out, names) < 0 ||
                   buf_add_text(out, " </dev/null >\"$t\" 2>&1; " JUDGE) < 0
               ? err_set(err, "out of memory")
               : 0;
}
