/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/payload.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "base/settings.h"
#include "launchers/agent_script.h"

#define PROGRAM     "/../../lib/cellspan/python/cellspan/_install/payload.py"
#define ANSWER_MAX  (1u << 20)
#define PAYLOAD_MAX (64u << 20)
#define SCRIPT_LINE "script"
#define LACKS_LINE  "lacks "
#define SECRET      "CELLSPAN_SECRET="
#define CHANGED     4 /* its exit status: what it has listed is not there any more */

extern char **environ;

static void forget_rows(struct payload *p)
{
    for (size_t i = 0; i < p->n; i++)
        buf_release(&p->row[i].bytes), free(p->row[i].why);
    free(p->row);
    free(p->script);
    free(p->lacks);
    p->row = NULL;
    p->script = p->lacks = NULL;
    p->n = 0;
}

void payload_release(struct payload *p)
{
    fd_close(&p->out);
    process_end_tree(p->pid); /* it may never answer */
    forget_rows(p);
    free(p->program);
    *p = (struct payload)PAYLOAD_INIT;
}

bool payload_child_ended(struct payload *p, pid_t pid)
{
    if (p->pid <= 0 || p->pid != pid)
        return false;
    p->pid = 0;
    return true;
}

/* ---- what can be sent ---- */

/* Our environment, but not the run's secret. The caller frees the list. NULL: memory is out. */
static const char **without_secret(void)
{
    const char **env;
    size_t n = 0, kept = 0;

    while (environ[n])
        n++;
    if (!(env = calloc(n + 1, sizeof *env)))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], SECRET, strlen(SECRET)) != 0)
            env[kept++] = environ[i];
    return env;
}

/* The path of payload.py, which belongs to the agent; NULL: it is not there. */
static char *find_program(const char *agent)
{
    const char *folder = setting_text(SETTING_PYTHONPATH), *slash = strrchr(agent, '/');
    struct buf path = BUF_INIT;
    int rc = folder   ? buf_addf(&path, "%s/cellspan/_install/payload.py", folder)
             : !slash ? -1
                      : buf_addf(&path, "%.*s" PROGRAM, (int)(slash - agent), agent);

    if (rc == 0 && access(path.p, R_OK) == 0)
        return buf_take(&path);
    buf_release(&path);
    return NULL;
}

void payload_ask(struct payload *p, const char *agent)
{
    const char *const python = getenv("CELLSPAN_HOME_PYTHON");
    const char *const wheels = setting_text(SETTING_WHEELS);
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct err err = { "" };
    const char **env;
    int out[2];

    p->agent = agent;
    p->python = python && *python ? python : "python3";
    p->wheels = wheels ? wheels : "";
    if (setting_value(SETTING_INSTALL) == INSTALL_NEVER || !(p->program = find_program(agent)))
        return;
    const char *const argv[] = { p->python,        "-I",      "-S", p->program, agent,
                                 CELLSPAN_VERSION, p->wheels, NULL };

    if (fd_pipe(out) < 0)
        return;
    spec.argv = argv;
    spec.env = env = without_secret();
    spec.out = out[1];
    spec.die_with_parent = true;
    p->pid = env ? process_start(&spec, &err) : -1;
    free(env);
    fd_close(&out[1]);
    if (p->pid > 0) {
        p->out = out[0];
        p->until_ns = clock_now(&clock_system) + PROCESS_ANSWER_NS;
    } else {
        p->pid = 0;
        fd_close(&out[0]);
    }
}

static char *word_end(char *at)
{
    return at + strcspn(at, " \n");
}

/* Reads "ARCH HASH LIBC" or "ARCH WHY", without its newline. */
static int read_row(struct payload *p, char *line, bool can)
{
    struct payload_row *row = realloc(p->row, (p->n + 1) * sizeof *row), *r;
    char *rest;

    if (!row)
        return -1;
    p->row = row;
    r = &row[p->n];
    *r = (struct payload_row){ .bytes = BUF_INIT };
    rest = word_end(line);
    if (!*rest || (size_t)(rest - line) >= sizeof r->arch)
        return -1;
    memcpy(r->arch, line, (size_t)(rest++ - line));
    if (can && (strspn(rest, "0123456789abcdef") != PAYLOAD_HASH ||
                sscanf(rest, "%64s %15s", r->hash, r->libc) != 2))
        return -1;
    if (!can && !(r->why = strdup(rest)))
        return -1;
    p->n++;
    return 0;
}

static int read_lines(struct payload *p, char *at)
{
    for (char *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        if (strcmp(at, SCRIPT_LINE) == 0)
            return (p->script = strdup(end + 1)) ? 0 : -1;
        if (text_begins(at, "can ") && read_row(p, at + strlen("can "), true) < 0)
            return -1;
        if (text_begins(at, "cannot ") && read_row(p, at + strlen("cannot "), false) < 0)
            return -1;
        if (text_begins(at, LACKS_LINE) && !p->lacks &&
            !(p->lacks = strdup(at + strlen(LACKS_LINE))))
            return -1;
    }
    return -1;
}

int payload_read(struct payload *p, const char *answer)
{
    char *copy = strdup(answer);
    const int rc = copy ? read_lines(p, copy) : -1;

    free(copy);
    if (rc < 0)
        forget_rows(p);
    return rc;
}

/* Waits for the end of the answer. The program may be on a file system that does not answer. */
static void read_answer(struct payload *p)
{
    struct buf answer = BUF_INIT;
    int status;

    if (process_answer(p->pid, &p->out, ANSWER_MAX, p->until_ns, &answer, &status) < 0)
        fprintf(stderr,
                "cellspan: %s %s has not answered within %u s: what it would list can't be sent to "
                "machines that lack it\n",
                p->python, p->program, (unsigned)(PROCESS_ANSWER_NS / NS_PER_S));
    else if (answer.p && payload_read(p, answer.p) < 0)
        fprintf(stderr, "cellspan: can't list what could be sent to machines that lack it\n");
    p->pid = 0;
    buf_release(&answer);
}

bool payload_known(struct payload *p)
{
    if (p->out >= 0)
        read_answer(p);
    for (size_t i = 0; i < p->n; i++)
        if (!p->row[i].why)
            return true;
    return false;
}

/* ---- for one machine ---- */

const char *payload_why_not(const struct payload *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->row[i].why)
            return p->row[i].why;
    return NULL;
}

/* Is this glibc ("glibc-2.36") older than 2.28, say? */
static bool is_older(const char *libc, const char *least)
{
    unsigned have[2], want[2];

    return sscanf(libc, "glibc-%u.%u", &have[0], &have[1]) == 2 &&
           sscanf(least, "%u.%u", &want[0], &want[1]) == 2 &&
           (have[0] < want[0] || (have[0] == want[0] && have[1] < want[1]));
}

struct payload_row *payload_for(struct payload *p, const char *arch, const char *libc,
                                struct err *err)
{
    struct payload_row *row = NULL;
    char install[SCRIPT_INSTALL_SIZE];

    for (size_t i = 0; i < p->n && !row; i++)
        if (strcmp(p->row[i].arch, arch) == 0)
            row = &p->row[i];
    if (!row)
        return err_null(err,
                        "it is %s, which this cellspan is not for; `%s` there, or set "
                        "CELLSPAN_WHEELS here to a folder with cellspan-" CELLSPAN_VERSION
                        "-…_%s.whl",
                        arch, script_install(CELLSPAN_INSTALL, install), arch);
    if (row->why)
        return err_null(err, "%s", row->why);
    if (strcmp(libc, "musl") == 0)
        return err_null(err, "its C library is musl, and cellspan's programs need glibc %s",
                        row->libc);
    if (is_older(libc, row->libc))
        return err_null(err, "it has %s, and cellspan's programs need glibc %s or newer", libc,
                        row->libc);
    return row;
}

const char *payload_with(const struct payload_row *row)
{
    return strchr(row->arch, PAYLOAD_ALSO) ? " with the Python packages that it needs" : "";
}

int payload_make(const struct payload *p, struct payload_row *row, struct err *err)
{
    const char *const argv[] = { p->python,        "-I",      "-S",      p->program, p->agent,
                                 CELLSPAN_VERSION, p->wheels, row->hash, NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf bytes = BUF_INIT;
    const char **env;
    int rc;

    if (row->bytes.n)
        return 0;
    spec.argv = argv;
    spec.env = env = without_secret();
    spec.die_with_parent = true;
    rc = env ? process_output(&spec, PAYLOAD_MAX, 2 * PROCESS_ANSWER_NS, &bytes, err)
             : err_set(err, "out of memory");
    free(env);
    if (rc > 0 && WIFEXITED(rc) && WEXITSTATUS(rc) == CHANGED)
        rc = err_set(err, "its files, or those of the Python packages that it needs, have changed "
                          "here while they were read: run the cell again");
    if (rc > 0 || (rc == 0 && !bytes.n))
        rc = err_set(err,
                     "its files could not be read here; `cellspan doctor` tells what is missing");
    if (rc == 0 && (buf_addf(&row->bytes, SCRIPT_PUT "%zu %s %zu %s\n%s", bytes.n, row->hash,
                             strlen(p->script), row->arch, p->script) < 0 ||
                    buf_add_slice(&row->bytes, buf_slice(&bytes)) < 0)) {
        buf_clear(&row->bytes);
        rc = err_set(err, "out of memory");
    }
    row->files = row->bytes.n - (rc == 0 ? bytes.n : 0);
    buf_release(&bytes);
    return rc;
}
