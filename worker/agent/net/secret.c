/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker/agent/net/sealed.h"

#define SECRET     "CELLSPAN_SECRET"
#define AGENT      "CELLSPAN_AGENT"
#define SEALED     "CELLSPAN_SEALED"
#define DIGITS_MAX 9u

extern char **environ;

static int take_number(struct handed *h, const char *name, struct slice text, struct err *err)
{
    uint32_t index = 0;

    for (size_t i = 0; i < text.n; i++) {
        if (text.n > DIGITS_MAX || text.p[i] < '0' || text.p[i] > '9')
            return err_set(err,
                           "%s is not a number: the engine must give each agent its own, from 0",
                           name);
        index = index * 10 + (uint32_t)(text.p[i] - '0');
    }
    if (text.n == 0)
        return err_set(err, "%s is empty: the engine must give each agent its own number, from 0",
                       name);
    h->index = index;
    h->has_index = true;
    return 0;
}

/* "3", or "3.1": the first one that takes the place of another. */
static int take_index(struct handed *h, struct slice text, struct err *err)
{
    const char *const dot = text.n ? memchr(text.p, '.', text.n) : NULL;
    struct handed of_turn = { .index = 0 };

    if (dot) {
        const size_t n = (size_t)(dot - text.p);

        if (take_number(&of_turn, AGENT, slice_of(dot + 1, text.n - n - 1), err) < 0)
            return -1;
        text.n = n;
    }
    h->turn = of_turn.index;
    return take_number(h, AGENT, text, err);
}

static int take_secret(struct handed *h, struct slice text, struct err *err)
{
    if (secret_parse(&h->secret, text, err) < 0)
        return -1;
    h->has_secret = true;
    return 0;
}

static bool begins(struct slice line, const char *name, struct slice *value)
{
    const size_t n = strlen(name);

    if (line.n <= n || memcmp(line.p, name, n) != 0 || line.p[n] != '=')
        return false;
    *value = slice_of(line.p + n + 1, line.n - n - 1);
    return true;
}

int secret_take_line(struct handed *h, struct slice line, struct err *err)
{
    struct slice value;

    if (line.n > 0 && line.p[line.n - 1] == '\r')
        line.n--;
    if (begins(line, SECRET, &value))
        return take_secret(h, value, err);
    if (begins(line, AGENT, &value))
        return take_index(h, value, err);
    if (h->sealed_for && begins(line, SEALED, &value)) {
        if (sealed_open(h->sealed_for, value, &h->secret, err) < 0)
            return -1;
        h->has_secret = true;
        return 0;
    }
    return err_set(err, "stdin does not begin with the lines " AGENT "=… and " SECRET
                        "=…: the engine must write them there, "
                        "or set both in the agent's environment");
}

/* ---- the environment ---- */

/* Overwrites the value where the system put it, because /proc/self/environ shows that memory. */
static int take_from_environment(struct handed *h, const char *name,
                                 int (*take)(struct handed *, struct slice, struct err *),
                                 struct err *err)
{
    char *value = getenv(name);
    int rc;

    if (!value)
        return 0;
    rc = take(h, slice_text(value), err);
    sodium_memzero(value, strlen(value));
    (void)unsetenv(name);
    return rc;
}

int secret_from_environment(struct handed *h, struct err *err)
{
    const int secret = take_from_environment(h, SECRET, take_secret, err);
    const int index = take_from_environment(h, AGENT, take_index, err);

    return secret < 0 || index < 0 ? -1 : 0;
}

int secret_number_from(struct handed *h, const char *names, struct err *err)
{
    h->turn = 0;
    for (const char *at = names;;) {
        const size_t n = strcspn(at, ",");
        char *name = strndup(at, n);
        const char *value = name ? getenv(name) : NULL;
        const int rc = value ? take_number(h, name, slice_text(value), err) : 0;

        free(name);
        if (!name)
            return err_set(err, "out of memory");
        if (value)
            return rc;
        if (!at[n])
            break;
        at += n + 1;
    }
    return err_set(err,
                   "--agent-from %s: no such variable is set; the engine must set one of them, to "
                   "each agent's own number",
                   names);
}

/* ---- an MPI ---- */

static bool is_of_mpi(const char *entry)
{
    /* Open MPI with PMIx and PRRTE; MPICH and Intel MPI with Hydra; what Slurm adds for both */
    static const char *const begins[] = { "OMPI_",     "OPAL_", "ORTE_",      "PRTE_",    "PMIX_",
                                          "PMI_",      "PMI2_", "HYDI_",      "HYDRA_",   "MPIR_",
                                          "MPI_LOCAL", "MV2_",  "SLURM_PMIX", "SLURM_PMI" };

    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(entry, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* The process manager's socket. */
static void keep_from_children(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    const long fd = text ? strtol(text, &end, 10) : -1;
    int flags;

    if (fd > STDERR_FILENO && fd < 65536 && end && !*end && (flags = fcntl((int)fd, F_GETFD)) >= 0)
        (void)fcntl((int)fd, F_SETFD, flags | FD_CLOEXEC);
}

/* Goes backwards, because unsetenv moves the later variables. */
void secret_leave_mpi(void)
{
    size_t n = 0;

    keep_from_children("PMI_FD");
    while (environ[n])
        n++;
    while (n-- > 0) {
        char *name = is_of_mpi(environ[n]) ? strndup(environ[n], strcspn(environ[n], "=")) : NULL;

        if (name)
            (void)unsetenv(name);
        free(name);
    }
}

/* ---- stdin ---- */

/* Reads only one byte: what follows the lines must stay on stdin. */
static int read_byte(int fd, uint64_t until_ns, char *c, struct err *err)
{
    for (;;) {
        struct pollfd p = { fd, POLLIN, 0 };
        const uint64_t now = clock_now(&clock_system);
        const int rc = now < until_ns ? poll(&p, 1, (int)((until_ns - now) / NS_PER_MS) + 1) : 0;
        ssize_t n;

        if (rc == 0)
            return err_set(err, "the engine handed over no " AGENT " and " SECRET
                                ", neither in the environment nor on stdin");
        if (rc < 0 && errno == EINTR)
            continue;
        n = read(fd, c, 1);
        if (n == 1)
            return 0;
        if (n == 0)
            return err_set(err, "stdin ended before " AGENT " and " SECRET
                                " were there: they are the engine's to hand over");
        if (errno != EINTR && errno != EAGAIN)
            return err_set(err, "can't read " AGENT " and " SECRET " from stdin: %s",
                           strerror(errno));
    }
}

static int read_line(struct handed *h, int fd, uint64_t until_ns, struct err *err)
{
    char line[SECRET_LINE_MAX];
    size_t n = 0;
    int rc = 0;

    while ((rc = read_byte(fd, until_ns, &line[n], err)) == 0 && line[n] != '\n')
        if (++n == sizeof line) {
            rc = err_set(err,
                         "a line of stdin is longer than %u bytes where " AGENT "=… or " SECRET
                         "=… belongs",
                         SECRET_LINE_MAX);
            break;
        }
    if (rc == 0)
        rc = secret_take_line(h, slice_of(line, n), err);
    sodium_memzero(line, sizeof line);
    return rc;
}

int secret_from_stdin(struct handed *h, int fd, int limit_ms, struct err *err)
{
    const uint64_t until_ns = clock_now(&clock_system) + (uint64_t)limit_ms * NS_PER_MS;

    while (!h->has_secret || !h->has_index)
        if (read_line(h, fd, until_ns, err) < 0)
            return -1;
    return 0;
}
