/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/processes/death_cause.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/needs.h"

#define LIMIT_SAID                        "cellspan: limit: "
#define MODULE(module, package, versions) module,

static int add_end(const struct death_cause *c, struct buf *out)
{
    if (!c->death.known)
        return buf_add_text(out, "ended");
    if (c->death.code == EXITED_SIGNAL)
        return buf_addf(out, "was killed by signal %d (%s)", c->death.status,
                        strsignal(c->death.status));
    return buf_addf(out, "exited with status %d", c->death.status);
}

static int add_no_package(const struct death_cause *c, struct buf *out)
{
    const bool pip = slice_begins(slice_text(CELLSPAN_INSTALL),
                                  "pip "); /* installs for one Python */

    if (c->node)
        return buf_addf(out,
                        ": no cellspan for %s on %s: `%s%s" CELLSPAN_INSTALL
                        "` there, or set CELLSPAN_REMOTE_PYTHON to a "
                        "Python that has it",
                        c->python, c->node, pip ? c->python : "", pip ? " -m " : "");
    return buf_addf(out,
                    ": %s does not find cellspan's Python package; install cellspan again, or set "
                    "CELLSPAN_PYTHONPATH to the folder that holds it",
                    c->python);
}

/* Is this an error of the dynamic linker about an extension that was built for another system? */
static bool is_foreign(struct slice said)
{
    return slice_holds(said, "_link") &&
           (slice_holds(said, "undefined symbol") || slice_holds(said, "GLIBC_") ||
            slice_holds(said, "cannot open shared object") ||
            slice_holds(said, "wrong ELF class") || slice_holds(said, "invalid ELF header"));
}

/* The limit that kept it from starting, which it has named (see begin_within_limits() of
 * begin.py); empty: none. */
static struct slice limit_in(struct slice said)
{
    while (said.n) {
        struct slice line = slice_line(&said);

        if (slice_begins(line, LIMIT_SAID))
            return slice_of(line.p + strlen(LIMIT_SAID), line.n - strlen(LIMIT_SAID));
    }
    return slice_of("", 0);
}

/* The usual reasons why a Python does not start, and what to do. */
static int add_remedy(const struct death_cause *c, struct buf *out)
{
    static const char *const needed[] = { NEEDS_EACH(
        MODULE) "traitlets" }; /* the last: IPython's */
    const char *on = c->node ? " on " : "", *node = c->node ? c->node : "";
    const struct slice limit = limit_in(c->said);
    char text[80];

    if (limit.n)
        return buf_addf(out, ": %.*s", SLICE_ARG(limit));
    if (slice_holds(c->said, "No module named 'cellspan'") ||
        slice_holds(c->said, "No module named cellspan"))
        return add_no_package(c, out);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        snprintf(text, sizeof text, " has no %s: ", needed[i]);
        if (slice_holds(c->said, text) ||
            (snprintf(text, sizeof text, "No module named '%s'", needed[i]) > 0 &&
             slice_holds(c->said, text)))
            return buf_addf(out, ": %s%s%s has no %s; run%s: %s -m pip install" NEEDS_WORDS,
                            c->python, on, node, needed[i], c->node ? " there" : "", c->python);
    }
    if (is_foreign(c->said))
        return buf_addf(
            out,
            ": cellspan%s%s was built for another system (see the last lines); install it there again",
            on, node);
    if (slice_holds(c->said, "No module named '"))
        return buf_addf(
            out,
            ": a module that cellspan needs is missing in %s%s%s (see the last lines); install it there",
            c->python, on, node);
    if (slice_holds(c->said, "SyntaxError"))
        return buf_addf(out, ": %s%s%s may be too old; cellspan needs Python 3.9 or newer",
                        c->python, on, node);
    return 0;
}

static int never_up(const struct death_cause *c, struct buf *out)
{
    const int rc = c->who ? buf_addf(out, "%s (%s) ", c->who, c->python)
                          : buf_addf(out, "%s ", c->python);

    if (rc < 0 || add_end(c, out) < 0 || buf_add_text(out, " before it was ready") < 0)
        return -1;
    return add_remedy(c, out);
}

static int killed(const struct death_cause *c, struct buf *out)
{
    if (c->death.status != SIGKILL)
        return 0;
    if (c->oom == OOM_CGROUP)
        return buf_add_text(out, "killed by the cgroup's out-of-memory killer");
    if (c->oom == OOM_SYSTEM)
        return buf_add_text(out, "killed by Linux's out-of-memory killer");
    return buf_add_text(out, "killed by SIGKILL from outside (perhaps the out-of-memory killer)");
}

int death_cause_text(const struct death_cause *c, struct buf *out)
{
    if (c->broke)
        return buf_addf(out, "ended by the agent: %s", c->broke);
    if (!c->ready && !c->ours)
        return never_up(c, out);
    if (c->death.known && c->death.code == EXITED_SIGNAL && !c->ours)
        return killed(c, out);
    return 0;
}

/* ---- children that are not known as workers ---- */

void strays_add(struct strays *s, pid_t pid, const struct death *d)
{
    const unsigned i = s->next++ % STRAYS_MAX;

    s->pid[i] = pid;
    s->death[i] = *d;
}

const struct death *strays_find(const struct strays *s, pid_t pid)
{
    for (unsigned i = 0; i < STRAYS_MAX; i++)
        if (s->pid[i] == pid)
            return &s->death[i];
    return NULL;
}
