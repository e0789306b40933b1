/* dial.c - see dial.h. */
#include "worker/agent/dial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

#define AGAIN_NS (200 * NS_PER_MS)

struct try {
    struct dial *dial;
    char endpoint[DIAL_ENDPOINT_SIZE];
    struct address to;
    bool known;          /* `to` is */
    int fd;              /* -1: between two tries */
    struct watch *watch;
    int error;           /* of the last try; 0: it never answered */
    char words[160];     /* why there is no address */
};

struct dial {
    struct loop *loop;
    struct try try[DIAL_MAX];
    unsigned n;
    struct watch *again, *limit;
    dial_f f;
    void *arg;
    bool over;
};

/* ---- pure ---- */

bool dial_next(struct slice *endpoints, struct slice *endpoint)
{
    while (endpoints->n > 0) {
        const char *comma = memchr(endpoints->p, ',', endpoints->n);

        *endpoint = slice_of(endpoints->p, comma ? (size_t)(comma - endpoints->p) : endpoints->n);
        *endpoints = slice_of(endpoint->p + endpoint->n + (comma ? 1 : 0), endpoints->n - endpoint->n - (comma ? 1 : 0));
        if (endpoint->n > 0)
            return true;
    }
    return false;
}

const char *dial_words(int error)
{
    switch (error) {
    case 0:
    case ETIMEDOUT: return "timed out";
    case ECONNREFUSED: return "connection refused";
    case EHOSTUNREACH: return "no route to host";
    case ENETUNREACH: return "network is unreachable";
    case ECONNRESET: return "connection reset";
    default: return strerror(error);
    }
}

bool dial_may_change(int error)
{
    return error != EAFNOSUPPORT && error != EINVAL && error != EACCES && error != EPERM;
}

/* ---- trying ---- */

static void try_close(struct try *t)
{
    watch_stop(t->watch);
    t->watch = NULL;
    fd_close(&t->fd);
}

static void free_later(struct loop *loop, void *arg)
{
    (void)loop;
    free(arg);
}

void dial_stop(struct dial *d)
{
    if (!d || d->over)
        return;
    d->over = true;
    for (unsigned i = 0; i < d->n; i++)
        try_close(&d->try[i]);
    watch_stop(d->again);
    watch_stop(d->limit);
    (void)!loop_later(d->loop, free_later, d); /* callers up the stack still look at it: without memory it stays */
}

static void reached(struct try *t)
{
    struct dial *d = t->dial;
    struct address own = { .size = sizeof own.socket };

    if (getsockname(t->fd, (struct sockaddr *)&own.socket, &own.size) < 0)
        own = (struct address){ .size = 0 };
    try_close(t);
    dial_f f = d->f;
    void *arg = d->arg;
    char endpoint[DIAL_ENDPOINT_SIZE];

    memcpy(endpoint, t->endpoint, sizeof endpoint);
    dial_stop(d);
    f(arg, endpoint, &own, NULL);
}

static void try_answered(struct loop *loop, int fd, unsigned events, void *arg)
{
    struct try *t = arg;
    int error = 0;
    socklen_t size = sizeof error;

    (void)loop;
    (void)events;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == 0) {
        reached(t);
        return;
    }
    t->error = error;
    try_close(t);
}

static void try_start(struct try *t)
{
    struct err err = { "" };

    if ((t->fd = socket(t->to.socket.ss_family, SOCK_STREAM, 0)) < 0 || fd_cloexec(t->fd) < 0 ||
        fd_nonblock(t->fd, true) < 0)
        goto failed;
    if (connect(t->fd, (const struct sockaddr *)&t->to.socket, t->to.size) < 0 && errno != EINPROGRESS)
        goto failed;
    if (!(t->watch = loop_fd(t->dial->loop, t->fd, LOOP_WRITE, try_answered, t, &err))) {
        errno = ENOMEM;
        goto failed;
    }
    return;
failed:
    t->error = errno;
    fd_close(&t->fd);
}

static void try_all(struct loop *loop, void *arg)
{
    struct dial *d = arg;

    (void)loop;
    for (unsigned i = 0; i < d->n && !d->over; i++)
        if (d->try[i].known && d->try[i].fd < 0 && dial_may_change(d->try[i].error))
            try_start(&d->try[i]);
}

/* ---- the end without success ---- */

static int tell_from(struct buf *out)
{
    struct buf list = BUF_INIT;
    struct slice rest, one;
    int rc = address_list(NULL, &list);
    unsigned n = 0;

    rest = buf_slice(&list);
    while (rc == 0 && dial_next(&rest, &one)) {
        const char *equals = memchr(one.p, '=', one.n);
        const size_t skip = equals ? (size_t)(equals - one.p) + 1 : 0;

        if (n++ < 8)
            rc = buf_addf(out, "%s%.*s", n == 1 ? "; from " : ", ", (int)(one.n - skip), one.p + skip);
    }
    buf_release(&list);
    return rc;
}

static void limit_is_over(struct loop *loop, void *arg)
{
    struct dial *d = arg;
    struct buf why = BUF_INIT;
    int rc = 0;

    (void)loop;
    for (unsigned i = 0; i < d->n && rc == 0; i++)
        rc = buf_addf(&why, "%s%s (%s)", i ? ", " : "", d->try[i].endpoint,
                      d->try[i].known ? dial_words(d->try[i].error) : d->try[i].words);
    if (rc == 0)
        rc = tell_from(&why);
    dial_stop(d);
    d->f(d->arg, NULL, NULL, rc == 0 ? why.p : "out of memory");
    buf_release(&why);
}

/* ---- start ---- */

static void add(struct dial *d, struct slice endpoint)
{
    struct try *t = &d->try[d->n++];
    struct err err = { "" };
    const char *colon;

    *t = (struct try){ .dial = d, .fd = -1 };
    snprintf(t->endpoint, sizeof t->endpoint, "%.*s", SLICE_ARG(endpoint));
    t->known = address_parse(endpoint, &t->to, &err) == 0;
    colon = strstr(err.text, ": ");
    snprintf(t->words, sizeof t->words, "%.150s", colon ? colon + 2 : err.text);
}

static bool any_known(const struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (d->try[i].known)
            return true;
    return false;
}

struct dial *dial_start(struct loop *loop, struct slice endpoints, uint64_t limit_ns, dial_f f, void *arg, struct err *err)
{
    struct dial *d = calloc(1, sizeof *d);
    struct slice rest = endpoints, one;

    if (!d)
        return err_null(err, "out of memory");
    d->loop = loop;
    d->f = f;
    d->arg = arg;
    while (d->n < DIAL_MAX && dial_next(&rest, &one))
        add(d, one);
    if (d->n == 0) {
        free(d);
        return err_null(err, "there is no endpoint to dial");
    }
    if (!(d->limit = loop_timer(loop, any_known(d) ? limit_ns : 0, 0, limit_is_over, d, err)) ||
        !(d->again = loop_timer(loop, 0, AGAIN_NS, try_all, d, err))) {
        dial_stop(d);
        return NULL;
    }
    return d;
}
