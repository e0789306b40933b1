/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/payload.c, and of what agent_script.c does where cellspan is missing. */
#include "launchers/payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launchers/agent_script.h"
#include "launchers/launcher.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

#define HASH  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define AGENT "cellspan-agent"

static const char answer[] = "can aarch64 " HASH " 2.28\n"
                             "cannot x86_64 it uses libzmq.so.5 of this machine\n"
                             "script\nimport sys\n\nprint(1)\n";

static void the_answer_is_read(void)
{
    struct payload p = PAYLOAD_INIT;

    ok(payload_read(&p, answer) == 0 && p.n == 2, "two architectures");
    is_text(p.row[0].arch, "aarch64", "one for which there is something");
    is_text(p.row[0].hash, HASH, "its hash");
    is_text(p.row[0].libc, "2.28", "and the C library that it needs");
    ok(!p.row[0].why && payload_known(&p), "it can be sent");
    is_text(p.row[1].why, "it uses libzmq.so.5 of this machine", "and why the other one can't");
    is_text(payload_why_not(&p), p.row[1].why, "which is told");
    is_text(p.script, "import sys\n\nprint(1)\n", "the program is all that follows");
    payload_release(&p);
    ok(!payload_known(&p) && !payload_why_not(&p), "nothing is known before");
}

static void a_wrong_answer_is_none(void)
{
    static const char *const wrong[] = { "",
                                         "script",
                                         "can x86_64 " HASH " 2.28\n",
                                         "can x86_64\nscript\n",
                                         "can x86_64 0123 2.28\nscript\n",
                                         "can x86_64 " HASH "\nscript\n",
                                         "can x86_64 " HASH HASH " 2.28\nscript\n",
                                         "can a-very-long-name-of-an-architecture " HASH
                                         " 2.28\nscript\n",
                                         "cannot x86_64\nscript\n" };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct payload p = PAYLOAD_INIT;

        ok(payload_read(&p, wrong[i]) < 0 && p.n == 0 && !p.script, "<%s>", wrong[i]);
        payload_release(&p);
    }
}

static void any_allocation_may_fail(void)
{
    struct payload p = PAYLOAD_INIT;
    int rc = -1;

    for (long nth = 0; rc < 0 && nth < 100; nth++) {
        alloc_fail_at(nth);
        rc = payload_read(&p, answer);
        alloc_fail_at(-1);
        if (rc < 0 && (p.n || p.script))
            break;
    }
    ok(rc == 0 && p.n == 2, "an answer is read whole, or not at all");
    payload_release(&p);
}

struct machine {
    const char *arch, *libc, *says; /* says: NULL: it takes the row of its architecture */
};

static void a_machine_takes_what_runs_on_it(void)
{
    static const struct machine machines[] = {
        { "aarch64", "glibc-2.28", NULL },
        { "aarch64", "glibc-3.1", NULL },
        { "aarch64", "unknown", NULL },
        { "aarch64", "musl", "its C library is musl, and cellspan's programs need glibc 2.28" },
        { "aarch64", "glibc-2.17", "it has glibc-2.17, and cellspan's programs need glibc 2.28" },
        { "x86_64", "glibc-2.41", "it uses libzmq.so.5 of this machine" },
        { "riscv64", "glibc-2.41", "it is riscv64, which this cellspan is not for; `pip install" },
    };
    struct payload p = PAYLOAD_INIT;

    if (payload_read(&p, answer) < 0)
        diag("no answer");
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const struct machine *m = &machines[i];
        struct err err = { "" };
        const struct payload_row *row = payload_for(&p, m->arch, m->libc, &err);

        if (m->says)
            ok(!row && strstr(err.text, m->says), "%s %s: %s", m->arch, m->libc, err.text);
        else
            ok(row == &p.row[0], "%s with %s is sent it", m->arch, m->libc);
    }
    payload_release(&p);
}

/* ---- the script ---- */

static char folder[] = "/tmp/cellspan-payload-XXXXXX";

/* Runs shell code in the folder. */
static void prepare(const char *code)
{
    struct buf all = BUF_INIT;

    if (buf_addf(&all, "cd %s && %s", folder, code) < 0 || system(all.p) != 0)
        diag("failed: %s", code);
    buf_release(&all);
}

/* What the script says on a machine where the folder is the home, when it reads `in`. */
static char *says(const struct payload *p, const char *prefix, const char *in)
{
    char agent[] = "/nowhere/" AGENT, *command[] = { agent, (char *)(uintptr_t)"a b", NULL };
    const struct script_spec spec = { .command = command, .prefix = prefix, .payload = p };
    struct buf line = BUF_INIT, all = BUF_INIT;
    struct err err = { "" };
    char *said = NULL, bytes[512];
    FILE *shell = NULL;
    size_t n;

    if (script_line(&line, &spec, &err) == 0 && setenv("LINE", line.p, 1) == 0 &&
        buf_addf(&all,
                 "cd %s && { printf '%s'; } | HOME=%s XDG_CACHE_HOME= XDG_RUNTIME_DIR=%s/run "
                 "PATH=%s/bin:/usr/bin:/bin sh -c 'eval \"$LINE\"; echo status $?' 2>&1; true",
                 folder, in, folder, folder, folder) == 0)
        shell = popen(all.p, "r");
    buf_clear(&all);
    while (shell && (n = fread(bytes, 1, sizeof bytes, shell)) > 0)
        if (buf_add(&all, bytes, n) < 0)
            break;
    if (shell)
        pclose(shell);
    said = all.p ? buf_take(&all) : strdup("");
    buf_release(&line);
    buf_release(&all);
    return said;
}

static void holds(char *said, const char *words, const char *what)
{
    ok(said && strstr(said, words), "%s", what);
    if (!said || !strstr(said, words))
        diag("%s", said ? said : "nothing");
    free(said);
}

/* The program that comes first, in place of unpack.py: it reads N bytes, and leaves the rest. */
#define PROGRAM                                                                                    \
    "import os, sys\nn, h, v, name = sys.argv[1:]\ngot = os.read(0, int(n)).decode()\n"            \
    "print(os.getcwd() + \"/new\" if got == \"bytes\" else \"wrong: \" + got)\n"                   \
    "sys.exit(got != \"bytes\")\n"

static void what_is_missing_comes_over_stdin(const struct payload *p)
{
    char put[1024];
    const int m = (int)strlen(PROGRAM);

    holds(says(p, NULL, ""), SCRIPT_MARK SCRIPT_MISSING " testarch ",
          "it says what kind of machine it is");
    snprintf(put, sizeof put, "put 5 " HASH " %d testarch\\n" PROGRAM "bytessecret\\n", m);
    prepare("mkdir -p new/libexec/cellspan && printf '#!/bin/sh\\ncat; echo \"ran <$1>\"\\n' "
            ">new/libexec/cellspan/" AGENT " && chmod +x new/libexec/cellspan/" AGENT);
    holds(says(p, NULL, put), "secret\nran <a b>\n",
          "the agent runs from there, and reads what follows");
    snprintf(put, sizeof put, "put 5 " HASH " %d testarch\\n" PROGRAM "other", m);
    holds(says(p, NULL, put), SCRIPT_MARK SCRIPT_REFUSED "wrong: other\n",
          "it tells why what came is not taken");
    holds(says(p, "/nowhere", ""), SCRIPT_MARK SCRIPT_MISSING "\n",
          "where the user says which one runs, none is sent");
}

#define COUNT_FILE ".cache/cellspan/" CELLSPAN_VERSION "-testarch-fedcba9876543210/" SCRIPT_COUNT

static void what_came_once_is_there(const struct payload *p)
{
    prepare("mkdir -p -m 700 .cache/cellspan && f=.cache/cellspan/" CELLSPAN_VERSION
            "-testarch-fedcba9876543210/libexec/cellspan && mkdir -p $f && printf "
            "'#!/bin/sh\\necho " AGENT " " CELLSPAN_VERSION "; [ \"$1\" = --version ] || "
            "echo \"ran <$1>\"\\n' >$f/" AGENT " && chmod +x $f/" AGENT
            " && chmod 700 $f/../.. && printf 2 >$f/../../" SCRIPT_COUNT " && touch $f/x.pyc");
    holds(says(p, NULL, ""), "\nran <a b>\n", "it runs the one in the cache");
    prepare("chmod 770 .cache/cellspan/*");
    holds(says(p, NULL, ""), SCRIPT_MARK SCRIPT_MISSING " testarch ",
          "but not where others may write");
    prepare("chmod 700 .cache/cellspan/* && chmod 777 .cache/cellspan");
    holds(says(p, NULL, ""), SCRIPT_MARK SCRIPT_MISSING " testarch ", "nor beside it");
    prepare("chmod 700 .cache/cellspan && printf 3 >" COUNT_FILE);
    holds(says(p, NULL, ""), SCRIPT_MARK SCRIPT_MISSING " testarch ",
          "nor if files of it are gone");
    prepare("printf 2 >" COUNT_FILE " && chmod -x .cache/cellspan/*/libexec/cellspan/" AGENT);
    holds(says(p, NULL, ""), SCRIPT_MARK SCRIPT_MISSING " testarch ",
          "one that does not run is no reason to give up");
}

int main(void)
{
    struct payload p = PAYLOAD_INIT;

    the_answer_is_read();
    a_wrong_answer_is_none();
    any_allocation_may_fail();
    a_machine_takes_what_runs_on_it();
    if (!mkdtemp(folder) || payload_read(&p, "can testarch " OTHER " 2.0\nscript\n") < 0) {
        skip("no folder can be made in /tmp");
        return plan_done();
    }
    p.python = "python3";
    prepare("mkdir bin && printf '#!/bin/sh\\necho testarch\\n' >bin/uname && chmod +x bin/uname");
    what_is_missing_comes_over_stdin(&p);
    what_came_once_is_there(&p);
    payload_release(&p);
    prepare("cd / && rm -r \"$OLDPWD\"");
    return plan_done();
}
