/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/agent_script.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "launchers/launcher.h"

#define AGENT "cellspan-agent"
/* Containers on one machine have the same boot id but count as separate machines; so it includes
 * the namespaces. */
#define MACHINE                                                                                    \
    "b=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null) && "                                     \
    "s=$(readlink /proc/self/ns/pid /proc/self/ns/net /proc/self/ns/uts 2>/dev/null) && "          \
    "echo \"" SCRIPT_MARK SCRIPT_MACHINE "\"$b $s; "

/* Quotes a path; "~/" means the remote user's home. */
static int add_path(struct buf *out, const char *path)
{
    if (strncmp(path, "~/", 2) != 0)
        return words_quote(out, path);
    return buf_add_text(out, "\"$HOME\"/") < 0 ? -1 : words_quote(out, path + 2);
}

static bool is_told(const char *prefix)
{
    return prefix && *prefix;
}

/* Adds the paths where the agent may be: below the prefix if one is given, else at the same path as
 * on this machine. */
static int add_candidates(struct buf *out, const struct script_spec *spec)
{
    const char *program = spec->command[0];
    int rc = 0;

    if (is_told(spec->prefix))
        rc = buf_add_text(out, " ") < 0 || add_path(out, spec->prefix) < 0 ||
             buf_add_text(out, "/libexec/cellspan/") < 0 ||
             words_quote(out, path_name(program)) < 0;
    else if (program[0] == '/')
        rc = buf_add_text(out, " ") < 0 || words_quote(out, program) < 0;
    return rc ? -1 : 0;
}

/* Searches on PATH, then beside the program `cellspan` on PATH, since the agent's own folder is
 * seldom on PATH. */
static int add_search(struct buf *out, const char *name)
{
    int rc = buf_add_text(out, "[ \"$a\" ] || a=$(command -v ") < 0 || words_quote(out, name) < 0 ||
             buf_add_text(out, ") || { c=$(command -v cellspan) && c=$(readlink -f \"$c\") && "
                               "a=${c%/*}/../libexec/cellspan/") < 0 ||
             words_quote(out, name) < 0 || buf_add_text(out, "; }; ") < 0;

    return rc ? -1 : 0;
}

static int add_settings(struct buf *out, const struct script_spec *spec)
{
    for (size_t i = 0; i < spec->settings; i++)
        if (buf_addf(out, "export %s=", spec->setting[i].name) < 0 ||
            words_quote(out, spec->setting[i].value) < 0 || buf_add_text(out, "; ") < 0)
            return -1;
    return 0;
}

static int add_all(struct buf *out, const struct script_spec *spec)
{
    const char *const name = path_name(spec->command[0]);

    if (buf_add_text(out, "n=$(printf \"\\nx\"); n=${n%x}; ") < 0)
        return -1;
    if (spec->cwd && (buf_add_text(out, "cd -- ") < 0 || words_quote(out, spec->cwd) < 0 ||
                      buf_add_text(out, " >/dev/null 2>&1; ") < 0))
        return -1;
    if (add_settings(out, spec) < 0)
        return -1;
    if (buf_add_text(out, "a=; for p in") < 0 || add_candidates(out, spec) < 0 ||
        buf_add_text(out, "; do if [ -f \"$p\" ] && [ -x \"$p\" ]; then a=$p; break; fi; done; ") <
            0 ||
        (!is_told(spec->prefix) && add_search(out, name) < 0) ||
        buf_add_text(out, "[ -x \"$a\" ] || { echo " SCRIPT_MARK SCRIPT_MISSING "; exit 127; }; ") <
            0)
        return -1;
    if (strcmp(name, AGENT) == 0 &&
        buf_add_text(out, "echo \"" SCRIPT_MARK SCRIPT_VERSION
                          "$(\"$a\" --version </dev/null 2>/dev/null)\"; ") < 0)
        return -1;
    if (buf_add_text(out, MACHINE) < 0)
        return -1;
    if (buf_add_text(out, "echo \"" SCRIPT_MARK SCRIPT_FOUND "$a\"; exec \"$a\"") < 0)
        return -1;
    for (char *const *arg = spec->command + 1; *arg; arg++)
        if (buf_add_text(out, " ") < 0 || words_quote(out, *arg) < 0)
            return -1;
    return buf_add_text(out, "\n");
}

int script_line(struct buf *out, const struct script_spec *spec, struct err *err)
{
    return add_all(out, spec) < 0 ? err_set(err, "out of memory") : 0;
}

void script_missing(char *text, size_t size, const char *program, const char *prefix)
{
    if (is_told(prefix))
        snprintf(
            text, size,
            "there is no %s/libexec/cellspan/%s, where CELLSPAN_REMOTE_PREFIX says; set it, in the notebook's "
            "environment, to the folder that holds it there, or unset it",
            prefix, program);
    else
        snprintf(text, size,
                 "there is no %s; `" CELLSPAN_INSTALL
                 "` there, or set CELLSPAN_REMOTE_PREFIX to the folder that holds "
                 "libexec/cellspan/%s on that machine",
                 program, program);
}
