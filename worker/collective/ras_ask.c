/* SPDX-License-Identifier: BSD-3-Clause */
/* ras_ask.c - see ras.h: the client of RAS. */
#include "worker/collective/ras.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"

#ifdef SOCK_CLOEXEC
#define CLOEXEC                                                                                    \
    SOCK_CLOEXEC /* set it with socket(): another thread may start a process meanwhile */
#else
#define CLOEXEC 0
#endif

static const char hello[] = "CLIENT PROTOCOL 2\n";
static const char greeting[] = "SERVER PROTOCOL ";
static const char timeout[] = "TIMEOUT 1\n"; /* seconds for each step; RAS's default is 5 */
static const char question[] = "VERBOSE STATUS\n";

struct ras_client {
    int fd;
    uint64_t until_ns;
    const char *where;
};

static int wait_for(const struct ras_client *d, short events, struct err *err)
{
    for (;;) {
        const uint64_t now = clock_now(&clock_system);
        struct pollfd watch = { .fd = d->fd, .events = events };
        int rc;

        if (now >= d->until_ns)
            return err_set(err, "NCCL's RAS at %s does not answer", d->where);
        rc = poll(&watch, 1, (int)((d->until_ns - now) / NS_PER_MS) + 1);
        if (rc > 0)
            return 0;
        if (rc < 0 && errno != EINTR)
            return err_set(err, "can't wait for NCCL's RAS: %s", strerror(errno));
    }
}

static int say(const struct ras_client *d, const char *text, struct err *err)
{
    size_t left = strlen(text);

    while (left) {
        const ssize_t n = send(d->fd, text, left, MSG_NOSIGNAL);

        if (n > 0) {
            text += n;
            left -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return err_set(err, "NCCL's RAS at %s hung up: %s", d->where, strerror(errno));
        } else if (wait_for(d, POLLOUT, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Reads one line (line true), or to the end. */
static int hear(const struct ras_client *d, bool line, struct buf *out, struct err *err)
{
    char part[4096];

    while (out->n < RAS_ANSWER_MAX) {
        /* Reads a line byte by byte, so as not to take the start of the answer after it. */
        const ssize_t n = recv(d->fd, part, line ? 1 : sizeof part, 0);

        if (n == 0)
            return line ? err_set(err, "what listens at %s is not NCCL's RAS", d->where) : 0;
        if (n > 0) {
            if (buf_add(out, part, (size_t)n) < 0)
                return err_set(err, "out of memory");
            if (line && part[0] == '\n')
                return 0;
        } else if (errno != EAGAIN && errno != EINTR) {
            return err_set(err, "NCCL's RAS at %s hung up: %s", d->where, strerror(errno));
        } else if (wait_for(d, POLLIN, err) < 0) {
            return -1;
        }
    }
    return line ? err_set(err, "what listens at %s is not NCCL's RAS", d->where) : 0;
}

static int connect_one(struct ras_client *d, const struct addrinfo *at, struct err *err)
{
    int error = 0;
    socklen_t size = sizeof error;

    d->fd = socket(at->ai_family, SOCK_STREAM | CLOEXEC, 0);
    if (d->fd < 0 || fd_nonblock(d->fd, true) < 0 || fd_cloexec(d->fd) < 0)
        error = errno;
    else if (connect(d->fd, at->ai_addr, at->ai_addrlen) < 0 && (error = errno) == EINPROGRESS) {
        if (wait_for(d, POLLOUT, err) < 0 ||
            getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) {
            fd_close(&d->fd);
            return -1;
        }
    }
    if (!error)
        return 0;
    fd_close(&d->fd);
    return err_set(err, "no NCCL RAS at %s: %s", d->where, strerror(error));
}

/* Connects. Reports the last address's error: the first may be ::1, where nobody listens. */
static int reach(struct ras_client *d, struct err *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    char host[256];
    struct addrinfo *found;
    struct slice name, port;
    int rc;

    if (!slice_host_port(slice_text(d->where), &name, &port) || name.n >= sizeof host)
        return err_set(err, "NCCL_RAS_ADDR=%s is not host:port", d->where);
    snprintf(host, sizeof host, "%.*s", SLICE_ARG(name));
    if ((rc = getaddrinfo(host, port.p, &hints, &found)) != 0)
        return err_set(err, "NCCL's RAS at %s: %s", d->where, gai_strerror(rc));
    rc = -1;
    for (const struct addrinfo *at = found; at && rc < 0; at = at->ai_next) {
        struct err why = { "" };

        rc = connect_one(d, at, &why);
        if (rc < 0 && !at->ai_next)
            (void)err_set(err, "%s", why.text);
    }
    freeaddrinfo(found);
    return rc;
}

int ras_ask(const char *address, unsigned timeout_ms, struct buf *out, struct err *err)
{
    const char *set = getenv("NCCL_RAS_ADDR");
    struct ras_client d = { -1, clock_now(&clock_system) + timeout_ms * NS_PER_MS, NULL };
    struct buf line = BUF_INIT;
    const size_t had = out->n;
    int rc;

    d.where = address && address[0] ? address : set && set[0] ? set : RAS_ADDRESS;
    rc = reach(&d, err);
    if (rc == 0)
        rc = say(&d, hello, err);
    if (rc == 0)
        rc = hear(&d, true, &line, err);
    if (rc == 0 && !text_begins(line.p, greeting))
        rc = err_set(err, "what listens at %s is not NCCL's RAS", d.where);
    buf_clear(&line);
    if (rc == 0 && (rc = say(&d, timeout, err)) == 0)
        /* "OK", or an error from an older NCCL; the question works in both cases */
        rc = hear(&d, true, &line, err);
    if (rc == 0)
        rc = say(&d, question, err);
    if (rc == 0 && hear(&d, false, out, err) < 0)
        /* keep what came, for example before a rank that does not answer */
        rc = out->n > had ? 0 : -1;
    buf_release(&line);
    fd_close(&d.fd);
    return rc;
}

/* ---- from an event loop ---- */

struct asking {
    int out;
    long pid; /* 0: any */
    unsigned timeout_ms;
    char address[256]; /* "": the default */
};

/* Has the process loaded NCCL? false also if the system does not tell. */
static bool has_nccl(long pid)
{
    char path[64], *line = NULL;
    bool found = false;
    size_t size = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/maps", pid);
    if (!(f = fopen(path, "re")))
        return false;
    while (!found && getline(&line, &size, f) > 0)
        found = strstr(line, "libnccl") != NULL;
    free(line);
    fclose(f);
    return found;
}

static void *asking_main(void *arg)
{
    struct asking *a = arg;
    struct buf answer = BUF_INIT, words = BUF_INIT;
    struct ras_status status;
    struct err err = { "" };

    if ((a->pid == 0 || has_nccl(a->pid)) &&
        ras_ask(a->address, a->timeout_ms, &answer, &err) == 0 &&
        ras_parse(buf_slice(&answer), &status, &err) == 0) {
        if (ras_words(&status, &words) == 0)
            (void)!fd_write(a->out, buf_slice(&words)); /* nobody may read it any more */
        ras_status_release(&status);
    }
    buf_release(&answer);
    buf_release(&words);
    fd_close(&a->out);
    free(a);
    return NULL;
}

int ras_begin(const char *address, long pid, unsigned timeout_ms, struct err *err)
{
    struct asking *a = calloc(1, sizeof *a);
    pthread_t thread;
    int fd[2], rc;

    if (!a)
        return err_set(err, "out of memory");
    if (fd_pipe(fd) < 0) {
        free(a);
        return err_set(err, "no pipe: %s", strerror(errno));
    }
    snprintf(a->address, sizeof a->address, "%s", address ? address : "");
    a->out = fd[1];
    a->pid = pid;
    a->timeout_ms = timeout_ms;
    /* SIGPIPE is blocked in it, too: if the pipe is closed, write() just fails */
    if ((rc = thread_start(&thread, asking_main, a)) == 0) {
        pthread_detach(thread);
        return fd[0];
    }
    fd_close(&fd[0]);
    fd_close(&fd[1]);
    free(a);
    return err_set(err, "no thread: %s", strerror(rc));
}
