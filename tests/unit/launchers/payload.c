/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/payload.c, and of what agent_script.c does where cellspan is missing. */
#include "launchers/payload.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "launchers/agent_script.h"
#include "launchers/launcher.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

#define HASH  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define AGENT "cellspan-agent"

static const char answer[] = "can aarch64 " HASH " 2.28\n"
                             "cannot x86_64 it uses libzmq.so.5 of this machine\n"
                             "can aarch64+3.11 " OTHER " 2.28\n"
                             "lacks import sys; sys.exit(3)\n"
                             "script\nimport sys\n\nprint(1)\n";

static void the_answer_is_read(void)
{
    struct payload p = PAYLOAD_INIT;

    ok(payload_read(&p, answer) == 0 && p.n == 3, "two architectures, one with packages");
    is_text(p.row[0].arch, "aarch64", "one for which there is something");
    is_text(p.row[0].hash, HASH, "its hash");
    is_text(p.row[0].libc, "2.28", "and the C library that it needs");
    ok(!p.row[0].why && payload_known(&p), "it can be sent");
    is_text(p.row[1].why, "it uses libzmq.so.5 of this machine", "and why the other one can't");
    is_text(payload_why_not(&p), p.row[1].why, "which is told");
    is_text(p.script, "import sys\n\nprint(1)\n", "the program is all that follows");
    is_text(p.lacks, "import sys; sys.exit(3)", "another one asks for packages");
    ok(!*payload_with(&p.row[0]) && strstr(payload_with(&p.row[2]), "packages"),
       "what is sent with it is told");
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
        if (rc < 0 && (p.n || p.script || p.lacks))
            break;
    }
    ok(rc == 0 && p.n == 3, "an answer is read whole, or not at all");
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

/* What the script says on a machine where the folder is the home, when it reads what the shell code
 * prints. */
static char *script_says(const struct script_spec *spec, const char *in)
{
    struct buf line = BUF_INIT, all = BUF_INIT;
    struct err err = { "" };
    char *said = NULL, bytes[512];
    FILE *shell = NULL;
    size_t n;

    if (script_line(&line, spec, &err) == 0 && setenv("LINE", line.p, 1) == 0 &&
        buf_addf(
            &all,
            "cd %s && { %s; } | HOME=%s XDG_CACHE_HOME= XDG_RUNTIME_DIR=%s/run "
            "PATH=%s/bin:/usr/bin:/bin sh -c 'echo $$ >pid; eval \"$LINE\"' 2>&1; echo status $?",
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

static char agent[] = "/nowhere/" AGENT, *command[] = { agent, (char *)(uintptr_t)"a b", NULL };

static char *says(const struct payload *p, const char *prefix, const char *in)
{
    const struct script_spec spec = { .command = command, .prefix = prefix, .payload = p };
    struct buf code = BUF_INIT;
    char *said = buf_addf(&code, "printf '%s'", in) == 0 ? script_says(&spec, code.p) : NULL;

    buf_release(&code);
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

/* In place of the agent: sends each signal to the shell that waits for it until it comes back. The
 * shell ignores the last one until it passes on all. */
#define SIGNALLED                                                                                  \
    "#!/usr/bin/env python3\nimport os, signal, sys, time\nprint(sys.stdin.readline().strip())\n"  \
    "names = \"USR2 USR1 HUP INT TERM\".split()\nwanted = [signal.Signals[\"SIG\" + n] for n in "  \
    "names]\nsignal.pthread_sigmask(signal.SIG_BLOCK, wanted)\nuntil = time.monotonic() + 60\n"    \
    "for one in wanted:\n came = None\n"                                                           \
    " while (came and came.si_signo) != one and time.monotonic() < until:\n"                       \
    "  os.kill(os.getppid(), one)\n  came = signal.sigtimedwait(wanted, 0.1)\n"                    \
    " print(came and came.si_signo == one and one.name)\nsys.exit(7)\n"

static void one_in_memory_gets_signals(const struct payload *p)
{
    char memory[] = "/dev/shm/cellspan-payload-XXXXXX", program[128], text[2048];

    if (!mkdtemp(memory)) {
        skip("no folder can be made in /dev/shm");
        return;
    }
    snprintf(text, sizeof text,
             "mkdir -p %s/libexec/cellspan && a=%s/libexec/cellspan/" AGENT
             " && printf '%%s' '" SIGNALLED "' >$a && chmod +x $a",
             memory, memory);
    prepare(text);
    snprintf(text, sizeof text, "%s/libexec/cellspan/" AGENT, memory);
    if (access(text, X_OK) < 0) {
        skip("no program may run in /dev/shm");
        snprintf(text, sizeof text, "rm -r %s", memory);
        prepare(text);
        return;
    }
    snprintf(program, sizeof program, "import os\nos.read(0, 1)\nprint(\"%s\")\n", memory);
    snprintf(text, sizeof text, "put 1 " HASH " %d testarch\n%sxsecret\n", (int)strlen(program),
             program);
    holds(says(p, NULL, text), "\nsecret\nSIGUSR2\nSIGUSR1\nSIGHUP\nSIGINT\nSIGTERM\nstatus 7\n",
          "an agent in /dev/shm gets stdin and the signals, and its exit status is told");
    ok(access(memory, F_OK) < 0, "then its folder is removed");
}

/* ---- a file that sbcast has brought to many tasks ---- */

/* One task of a step that has many. `of` is the step's number; in: shell code, in which $F is the
 * folder of the file. */
static char *task_says(const struct payload *p, const char *of, const char *in)
{
    const struct script_spec spec = { .command = command, .payload = p, .together = true };
    struct buf code = BUF_INIT;
    char job[32], *said = NULL;

    snprintf(job, sizeof job, "unit%d", (int)getpid());
    if (setenv("SLURM_NTASKS", "33", 1) == 0 && setenv("SLURM_JOB_ID", job, 1) == 0 &&
        setenv("SLURM_STEP_ID", of, 1) == 0 &&
        buf_addf(&code, "F=" SCRIPT_FOLDER "%s.%s; %s", job, of, in) == 0)
        said = script_says(&spec, code.p);
    buf_release(&code);
    return said;
}

/* Shell code that waits until the condition holds. */
#define UNTIL(condition)                                                                           \
    "n=0; until " condition " || [ $n = 3000 ]; do n=$((n+1)); sleep .02; done; "
#define BRING(bytes) UNTIL("[ -d $F ]") "printf 'x" bytes "' >$F/" SCRIPT_FILE "; "

/* What unpack.py's exit status says. */
#define FILE_PROGRAM                                                                               \
    "import os, sys\nn, h, v, name = sys.argv[1:]\ngot = os.read(0, int(n)).decode()\n"            \
    "if got != \"bytes\":\n print(\"wrong: \" + got)\n sys.exit(1 if got == \"place\" else 2)\n"   \
    "print(os.getcwd() + \"/new\")\n"

static void leaves_no_folder(void)
{
    ok(system("[ ! -e " SCRIPT_FOLDER "$SLURM_JOB_ID.$SLURM_STEP_ID ]") == 0,
       "and its folder is gone");
}

static void many_tasks_read_a_file(const struct payload *p)
{
    const int m = (int)strlen(FILE_PROGRAM);
    char code[2048];

#define GET(bytes) BRING(bytes) "printf 'get 5 " HASH " %d testarch 1 6\n" FILE_PROGRAM "'; "
#define PUT        "printf 'put 5 " HASH " %d testarch\n" FILE_PROGRAM "bytes'; "
    snprintf(code, sizeof code, GET("bytes") "echo go; echo secret", m);
    holds(task_says(p, "1", code), "secret\nran <a b>\n", "a task takes what sbcast has brought");
    leaves_no_folder();
    snprintf(code, sizeof code, GET("bytes") "printf 'go\n'", m);
    holds(task_says(p, "2", code), SCRIPT_MARK SCRIPT_HAS "\n", "it says that it has it");
    leaves_no_folder();
    snprintf(code, sizeof code, GET("other") PUT "printf 'go\n'", m, m);
    holds(task_says(p, "3", code), SCRIPT_MARK SCRIPT_FOUND, "of a wrong file it takes nothing");
    leaves_no_folder();
    snprintf(code, sizeof code, GET("byte") PUT "printf 'go\n'", m, m);
    holds(task_says(p, "4", code), SCRIPT_MARK SCRIPT_FOUND, "nor of a part of a file");
    leaves_no_folder();
    snprintf(code, sizeof code, GET("place") "printf 'go\n'", m);
    holds(task_says(p, "5", code), SCRIPT_MARK SCRIPT_REFUSED "wrong: place\n",
          "a refusal is told, and stdin would change nothing");
    leaves_no_folder();
#undef GET
#undef PUT
}

static void a_task_leaves_no_folder(const struct payload *p)
{
    holds(task_says(p, "6", BRING("bytes") "true"), "status 127\n",
          "it ends where nothing else comes");
    leaves_no_folder();
    holds(task_says(p, "7",
                    BRING("bytes") "p=$(cat pid); kill -TERM $p; " UNTIL("! [ -e $F ]") "true"),
          "status 143\n", "it is killed while it waits");
    leaves_no_folder();
    prepare("printf '#!/bin/sh\nexit 1\n' >bin/python3 && chmod +x bin/python3 && "
            "cp bin/python3 bin/python");
    holds(task_says(p, "8", BRING("bytes") "printf 'get 5 " HASH " 1 testarch 1 6\nx'"),
          SCRIPT_MARK SCRIPT_REFUSED "there is no python3", "there is no Python");
    leaves_no_folder();
    prepare("rm bin/python3 bin/python");
}

static void a_folder_that_is_there_already_is_not_used(const struct payload *p)
{
    static const char *const makes[] = { "mkdir -m 755 $F", "mkdir theirs && ln -s $PWD/theirs $F",
                                         "echo >$F" };
    char code[256];

    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        snprintf(code, sizeof code, "F=" SCRIPT_FOLDER "unit%d.9; %s", (int)getpid(), makes[i]);
        prepare(code);
        holds(task_says(p, "9", "true"), SCRIPT_MARK SCRIPT_UNFIT "\n", makes[i]);
        snprintf(code, sizeof code, "rm -rf " SCRIPT_FOLDER "unit%d.9", (int)getpid());
        ok(system("[ -e " SCRIPT_FOLDER "$SLURM_JOB_ID.9 ]") == 0 && system(code) == 0,
           "and it is left alone");
    }
}

static void what_was_left_is_removed(const struct payload *p)
{
    char old[] = SCRIPT_FOLDER "unit-XXXXXX", young[] = SCRIPT_FOLDER "unit-XXXXXX";
    const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

    if (!mkdtemp(old) || !mkdtemp(young) || utimensat(AT_FDCWD, old, times, 0) < 0)
        diag("no folder can be made in /tmp");
    holds(task_says(p, "8", "true"), "status 127\n", "a task of another step");
    ok(access(old, F_OK) < 0, "removes what killed tasks have left");
    ok(rmdir(young) == 0, "but not what tasks may use that run");
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

/* An agent of our version on PATH, and a Python that may lack packages. */
static void packages_come_where_they_are_lacking(void)
{
    static const char none[] = "can testarch " OTHER " 2.0\ncan testarch+3.11 " HASH
                               " 2.0\nlacks import sys; sys.exit(3)\nscript\n",
                      all[] = "can testarch " OTHER " 2.0\ncan testarch+3.11 " HASH
                              " 2.0\nlacks import sys; sys.exit(0)\nscript\n";
    struct payload p = PAYLOAD_INIT;
    char put[1024];
    const int m = (int)strlen(PROGRAM);

    prepare("rm -rf .cache");
    if (payload_read(&p, none) < 0)
        diag("no answer");
    p.python = "python3";
    holds(says(&p, NULL, ""), SCRIPT_MARK SCRIPT_MISSING " testarch+3.11 ",
          "neither cellspan nor the packages are there");
    prepare("printf '#!/bin/sh\necho " AGENT " " CELLSPAN_VERSION "; [ \"$1\" = --version ] || "
            "echo \"own <$1>\"\n' >bin/" AGENT " && chmod +x bin/" AGENT);
    snprintf(put, sizeof put, "put 5 " HASH " %d testarch+3.11\\n" PROGRAM "bytessecret\\n", m);
    holds(says(&p, NULL, put), "secret\nran <a b>\n", "cellspan comes with the packages");
    holds(says(&p, NULL, "go\\n"), "\nown <a b>\n", "without them, the agent that is there runs");
    snprintf(put, sizeof put, "put 5 " HASH " %d testarch+3.11\\n" PROGRAM "other", m);
    holds(says(&p, NULL, put), "can't be installed: wrong: other\n" SCRIPT_MARK SCRIPT_VERSION,
          "what came is not taken");
    holds(says(&p, NULL, put), "\nown <a b>\n", "and the agent that is there runs, too");
    payload_release(&p);
    if (payload_read(&p, all) < 0)
        diag("no answer");
    p.python = "python3";
    holds(says(&p, NULL, ""), "\nown <a b>\n", "nothing is lacking");
    prepare("rm bin/" AGENT);
    holds(says(&p, NULL, ""), SCRIPT_MARK SCRIPT_MISSING " testarch ", "cellspan alone is lacking");
    prepare("printf '#!/bin/sh\nexit 1\n' >bin/broken && chmod +x bin/broken");
    p.python = "broken";
    snprintf(put, sizeof put, "put 5 " OTHER " %d testarch\\n" PROGRAM "bytessecret\\n", m);
    holds(says(&p, NULL, put), "secret\nran <a b>\n",
          "a Python that was asked and does not run is not the one that unpacks it");
    payload_release(&p);
}

/* The same for many tasks, which read the same stdin. */
static void packages_come_to_many_tasks(void)
{
    static const char none[] = "can testarch " OTHER " 2.0\ncan testarch+3.11 " HASH
                               " 2.0\nlacks import sys; sys.exit(3)\nscript\n";
    struct payload p = PAYLOAD_INIT;
    const int m = (int)strlen(FILE_PROGRAM);
    char code[2048];

    if (payload_read(&p, none) < 0)
        diag("no answer");
    p.python = "python3";
    prepare("printf '#!/bin/sh\necho " AGENT " " CELLSPAN_VERSION "; [ \"$1\" = --version ] || "
            "echo \"own <$1>\"\n' >bin/" AGENT " && chmod +x bin/" AGENT);
    snprintf(code, sizeof code,
             BRING("bytes") "printf 'get 5 " HASH " %d testarch+3.11 1 6\n" FILE_PROGRAM
                            "'; printf 'go\nsecret\n'",
             m);
    holds(task_says(&p, "10", code), "secret\nran <a b>\n", "a task takes the file with them");
    snprintf(code, sizeof code,
             BRING("place") "printf 'get 5 " HASH " %d testarch+3.11 1 6\n" FILE_PROGRAM
                            "'; printf 'go\n'",
             m);
    holds(task_says(&p, "11", code), "\n" SCRIPT_MARK SCRIPT_HAS "\n" SCRIPT_MARK SCRIPT_VERSION,
          "a task that can't take it waits for nothing else");
    holds(task_says(&p, "12", code), "\nown <a b>\n", "and runs the agent that is there");
    leaves_no_folder();
    prepare("rm bin/" AGENT);
    payload_release(&p);
}

/* Between what is listed and what is read, pip may have replaced a file. */
static void files_that_change_meanwhile_are_told(void)
{
    static const struct {
        const char *python, *said;
    } cases[] = { { "printf bytes", NULL },
                  { "exit 4", "have changed here while they were read: run the cell again" },
                  { "exit 1", "could not be read here" },
                  { "exit 0", "could not be read here" } };
    char python[64], code[160];

    snprintf(python, sizeof python, "%s/python", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct payload p = PAYLOAD_INIT;
        struct err err = { "" };
        int rc;

        if (payload_read(&p, "can testarch " OTHER " 2.0\nscript\n") < 0)
            break;
        snprintf(code, sizeof code, "printf '#!/bin/sh\n%s\n' >python && chmod +x python",
                 cases[i].python);
        prepare(code);
        p.python = python;
        p.program = strdup("payload.py");
        p.agent = agent;
        p.wheels = "";
        rc = payload_make(&p, &p.row[0], &err);
        ok(cases[i].said ? rc < 0 && strstr(err.text, cases[i].said) : rc == 0, "%s: %s",
           cases[i].python, err.text);
        payload_release(&p);
    }
}

/* As where its Python, or a package, is on a file system that does not answer. Without a limit,
 * this test would hang. */
static void who_never_answers_is_not_waited_for(void)
{
    struct payload p = PAYLOAD_INIT;
    char python[sizeof folder + 16];

    snprintf(python, sizeof python, "%s/hangs", folder);
    (void)setenv("CELLSPAN_HOME_PYTHON", python, 1);
    (void)setenv("CELLSPAN_PYTHONPATH", folder, 1);
    prepare("mkdir -p cellspan/_install && touch cellspan/_install/payload.py");
    prepare("printf '#!/bin/sh\nsleep 600\n' >hangs && chmod +x hangs");
    for (unsigned round = 0; round < 2; round++) {
        payload_ask(&p, AGENT);
        if (!ok(p.pid > 0, "payload.py is started"))
            return;
        p.until_ns = 0;
        if (round == 0)
            ok(!payload_known(&p) && p.pid == 0, "and ended when its time is over");
        payload_release(&p);
    }
    ok(p.pid == 0, "or when its answer is not wanted any more");
    (void)unsetenv("CELLSPAN_HOME_PYTHON");
    (void)unsetenv("CELLSPAN_PYTHONPATH");
}

/* A launcher waits for whichever child has ended. */
static void a_program_that_has_ended_is_not_ended_again(void)
{
    const char *const argv[] = { "sh", "-c", "exec 3<&0; cat <&3 & echo $!", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct payload p = PAYLOAD_INIT;
    struct err err = { "" };
    char python[sizeof folder + 16], text[32] = "";
    int in = -1, out = -1, errs = -1, status;
    pid_t pid;

    snprintf(python, sizeof python, "%s/answers", folder);
    (void)setenv("CELLSPAN_HOME_PYTHON", python, 1);
    (void)setenv("CELLSPAN_PYTHONPATH", folder, 1);
    prepare("mkdir -p cellspan/_install && touch cellspan/_install/payload.py");
    prepare("printf '#!/bin/sh\necho \"can testarch " OTHER " 2.0\"; echo script\n' >answers && "
            "chmod +x answers");
    payload_ask(&p, AGENT);
    pid = waitpid(-1, &status, 0);
    ok(pid > 0 && pid == p.pid && payload_child_ended(&p, pid) && p.pid == 0,
       "payload.py has ended and was waited for");
    ok(!payload_child_ended(&p, pid), "which is told once");
    ok(payload_known(&p), "its answer is there");
    payload_release(&p);
    (void)unsetenv("CELLSPAN_HOME_PYTHON");
    (void)unsetenv("CELLSPAN_PYTHONPATH");

    /* a process that has its number now */
    spec.argv = argv;
    pid = process_start_streams(&spec, &in, &out, &errs, &err);
    if (!ok(pid > 0 && fd_nonblock(out, false) == 0 && read(out, text, sizeof text - 1) > 0 &&
                waitpid(pid, NULL, 0) == pid,
            "another process runs"))
        return;
    p.pid = (pid_t)strtol(text, NULL, 10);
    payload_release(&p);
    ok(write(in, "x", 1) == 1 && read(out, text, 1) == 1 && *text == 'x', "and runs on");
    fd_close(&in);
    fd_close(&out);
    fd_close(&errs);
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
    one_in_memory_gets_signals(&p);
    many_tasks_read_a_file(&p);
    a_task_leaves_no_folder(&p);
    a_folder_that_is_there_already_is_not_used(&p);
    what_was_left_is_removed(&p);
    what_came_once_is_there(&p);
    payload_release(&p);
    packages_come_where_they_are_lacking();
    packages_come_to_many_tasks();
    files_that_change_meanwhile_are_told();
    who_never_answers_is_not_waited_for();
    a_program_that_has_ended_is_not_ended_again();
    prepare("cd / && rm -r \"$OLDPWD\"");
    return plan_done();
}
