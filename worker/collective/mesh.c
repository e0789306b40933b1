/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/collective/mesh.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/le.h"
#include "base/process.h"
#include "base/rows.h"

#define HELLO      40u  /* magic 8, token 16, attempt, from, to, 0: four u32, little-endian */
#define GUESTS_MAX 256u /* connections that have not said hello yet */
/* how long one of them may take for it when all places are taken; real peers send it at once */
#define SILENT_NS (2 * NS_PER_S)
#define BACKLOG   4096
static const char magic[8] = "CSMESH1";

struct mesh_line {
    unsigned rank;
    int in, out; /* opened by the peer, opened by us; -1: none */
};

struct mesh {
    int listener;
    unsigned port;
    uint8_t token[MESH_TOKEN];
    unsigned strangers;
    struct mesh_line *line;
    size_t n_lines, room;
};

/* A connection that we are opening. */
struct mesh_dial {
    int fd; /* -1: done, or failed */
    struct mesh_line *line;
    struct mesh_peer *peer;
    uint8_t hello[HELLO];
    size_t sent;
};

/* An accepted connection, before we know who it is. */
struct guest {
    int fd;
    uint64_t since_ns;
    uint8_t hello[HELLO];
    size_t got;
};

struct meeting {
    struct mesh *mesh;
    unsigned self, attempt;
    struct mesh_dial *dial;
    size_t n;
    struct guest guest[GUESTS_MAX];
    size_t n_guests;
    struct pollfd *watch; /* the listener, the dials, the guests */
};

static int prepare_socket(int fd)
{
    const int one = 1;

    if (fd_nonblock(fd, true) < 0 || fd_cloexec(fd) < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return 0;
}

/* ---- addresses ---- */

/* Splits "address:port" or "[address]:port"; both buffers have MESH_WHERE bytes. */
static int split_where(const char *where, char *address, char *port)
{
    struct slice host, number;

    if (strlen(where) >= MESH_WHERE || !slice_host_port(slice_text(where), &host, &number))
        return -1;
    snprintf(address, MESH_WHERE, "%.*s", SLICE_ARG(host));
    snprintf(port, MESH_WHERE, "%.*s", SLICE_ARG(number));
    return 0;
}

static struct addrinfo *resolve(const char *address, const char *port, struct err *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    struct addrinfo *found;
    const int rc = getaddrinfo(address, port, &hints, &found);

    return rc ? err_null(err, "%s is no address: %s", address, gai_strerror(rc)) : found;
}

static int listen_at(const struct addrinfo *where, const char *address, struct err *err)
{
    int fd = socket(where->ai_family, SOCK_STREAM, 0);

    if (fd < 0 || prepare_socket(fd) < 0 || bind(fd, where->ai_addr, where->ai_addrlen) < 0 ||
        listen(fd, BACKLOG) < 0) {
        err_set(err, "can't listen at %s: %s", address, strerror(errno));
        fd_close(&fd);
        return -1;
    }
    return fd;
}

static unsigned port_of(int fd)
{
    struct sockaddr_storage name;
    socklen_t n = sizeof name;

    if (getsockname(fd, (struct sockaddr *)&name, &n) < 0)
        return 0;
    return ntohs(name.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&name)->sin6_port
                                            : ((const struct sockaddr_in *)&name)->sin_port);
}

/* ---- life ---- */

struct mesh *mesh_open(const char *address, const uint8_t token[MESH_TOKEN], struct err *err)
{
    struct addrinfo *where = resolve(address, "0", err);
    struct mesh *m = where ? calloc(1, sizeof *m) : NULL;

    if (where && !m)
        err_set(err, "out of memory");
    if (m) {
        memcpy(m->token, token, MESH_TOKEN);
        m->listener = listen_at(where, address, err);
        if (m->listener < 0) {
            free(m);
            m = NULL;
        } else {
            m->port = port_of(m->listener);
        }
    }
    if (where)
        freeaddrinfo(where);
    return m;
}

static void line_close(struct mesh_line *line)
{
    fd_close(&line->in);
    fd_close(&line->out);
}

void mesh_close(struct mesh *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_lines; i++)
        line_close(&m->line[i]);
    free(m->line);
    fd_close(&m->listener);
    free(m);
}

unsigned mesh_port(const struct mesh *m)
{
    return m->port;
}

unsigned mesh_strangers(struct mesh *m)
{
    int fd;

    while ((fd = accept(m->listener, NULL, NULL)) >= 0) {
        m->strangers++;
        fd_close(&fd);
    }
    return m->strangers;
}

static struct mesh_line *line_to(const struct mesh *m, unsigned rank)
{
    for (size_t i = 0; i < m->n_lines; i++)
        if (m->line[i].rank == rank)
            return &m->line[i];
    return NULL;
}

static struct mesh_line *line_add(struct mesh *m, unsigned rank)
{
    struct mesh_line *line = line_to(m, rank);

    if (line)
        line_close(line);
    else if ((line = rows_add(&m->line, &m->n_lines, &m->room, sizeof *line)))
        *line = (struct mesh_line){ rank, -1, -1 };
    return line;
}

void mesh_drop(struct mesh *m, unsigned rank)
{
    struct mesh_line *line = line_to(m, rank);

    if (line)
        line_close(line);
}

static bool is_closed(const struct mesh_way *closed, size_t n, unsigned from, unsigned to)
{
    for (size_t i = 0; i < n; i++)
        if (closed[i].from == from && closed[i].to == to)
            return true;
    return false;
}

int mesh_to(const struct mesh *m, unsigned self, unsigned rank, const struct mesh_way *closed,
            size_t n)
{
    const struct mesh_line *line = line_to(m, rank);
    const unsigned low = self < rank ? self : rank, high = self < rank ? rank : self;
    bool upward;

    if (!line)
        return -1;
    upward = is_closed(closed, n, high, low); /* then use the one that the lower rank opened */
    return (upward ? low : high) == self ? line->out : line->in;
}

/* ---- connecting: our dials and accepted guests ---- */

static void dial_fail(struct mesh_dial *d, const char *what, int error)
{
    snprintf(d->peer->error, sizeof d->peer->error, "%s: %s", d->peer->where,
             error ? strerror(error) : what);
    fd_close(&d->fd);
}

static void dial_start(struct meeting *g, struct mesh_dial *d)
{
    char address[MESH_WHERE], port[MESH_WHERE];
    struct err err = { "" };
    struct addrinfo *where;

    d->fd = -1;
    if (split_where(d->peer->where, address, port) < 0) {
        dial_fail(d, "no address with a port", 0);
        return;
    }
    if (!(where = resolve(address, port, &err))) {
        dial_fail(d, err.text, 0);
        return;
    }
    memcpy(d->hello, magic, sizeof magic);
    memcpy(d->hello + 8, g->mesh->token, MESH_TOKEN);
    le_put(d->hello + 24, 4, g->attempt);
    le_put(d->hello + 28, 4, g->self);
    le_put(d->hello + 32, 4, d->peer->rank);
    le_put(d->hello + 36, 4, 0);
    d->fd = socket(where->ai_family, SOCK_STREAM, 0);
    if (d->fd < 0 || prepare_socket(d->fd) < 0 ||
        (connect(d->fd, where->ai_addr, where->ai_addrlen) < 0 && errno != EINPROGRESS))
        dial_fail(d, "", errno);
    freeaddrinfo(where);
}

static void dial_say(struct mesh_dial *d)
{
    int error = 0;
    socklen_t size = sizeof error;
    ssize_t n;

    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error) {
        dial_fail(d, "", error ? error : errno);
        return;
    }
    n = send(d->fd, d->hello + d->sent, HELLO - d->sent, MSG_NOSIGNAL);
    if (n > 0)
        d->sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        dial_fail(d, "", errno);
}

static void dial_hear(struct mesh_dial *d)
{
    char answer;
    const ssize_t n = recv(d->fd, &answer, 1, 0);

    if (n == 1 && answer == 'k') {
        d->line->out = d->fd;
        d->fd = -1;
    } else if (n == 0 || n == 1) {
        dial_fail(d, "something else answers at that port", 0);
    } else if (errno != EAGAIN && errno != EINTR) {
        dial_fail(d, "", errno);
    }
}

static bool same_token(const uint8_t *a, const uint8_t *b)
{
    unsigned differ = 0;

    for (unsigned i = 0; i < MESH_TOKEN; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return differ == 0;
}

/* The entry of the rank that has connected; NULL: close the connection. A guest of an earlier
 * attempt does not count as a stranger, but its rank no longer waits for this connection. */
static struct mesh_line *guest_line(struct meeting *g, const struct guest *q)
{
    if (memcmp(q->hello, magic, sizeof magic) != 0 || !same_token(q->hello + 8, g->mesh->token)) {
        g->mesh->strangers++;
        return NULL;
    }
    if (le_get(q->hello + 24, 4) != g->attempt || le_get(q->hello + 32, 4) != g->self)
        return NULL;
    return line_to(g->mesh, (unsigned)le_get(q->hello + 28, 4));
}

/* Reads from a guest. false: it is decided, so remove it from the guests. */
static bool guest_hear(struct meeting *g, struct guest *q)
{
    const ssize_t n = recv(q->fd, q->hello + q->got, HELLO - q->got, 0);
    struct mesh_line *line;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n > 0 && (q->got += (size_t)n) < HELLO)
        return true;
    line = n > 0 ? guest_line(g, q) : NULL;
    g->mesh->strangers += n <= 0; /* it left before the end of its hello */
    if (line && send(q->fd, "k", 1, MSG_NOSIGNAL) == 1) {
        fd_close(&line->in);
        line->in = q->fd;
    } else {
        fd_close(&q->fd);
    }
    return false;
}

static void take_guests(struct meeting *g)
{
    while (g->n_guests < GUESTS_MAX) {
        int fd = accept(g->mesh->listener, NULL, NULL);

        if (fd < 0)
            return;
        if (prepare_socket(fd) < 0) {
            fd_close(&fd);
            continue;
        }
        g->guest[g->n_guests++] = (struct guest){ .fd = fd, .since_ns = clock_now(&clock_system) };
    }
}

/* Closes guests that send no hello, since peers may wait in the system's queue behind them. */
static void drop_silent(struct meeting *g)
{
    const uint64_t now = clock_now(&clock_system);

    for (size_t i = g->n_guests; i-- > 0;)
        if (now - g->guest[i].since_ns >= SILENT_NS) {
            g->mesh->strangers++;
            fd_close(&g->guest[i].fd);
            g->guest[i] = g->guest[--g->n_guests];
        }
}

static bool settled(const struct meeting *g)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->dial[i].fd >= 0 || g->dial[i].line->in < 0)
            return false;
    return true;
}

static int meet_once(struct meeting *g, const struct deadline *l)
{
    size_t guests, n = 0;

    if (g->n_guests == GUESTS_MAX)
        drop_silent(g);
    guests = g->n_guests;
    g->watch[n++] = (struct pollfd){ .fd = g->n_guests < GUESTS_MAX ? g->mesh->listener : -1,
                                     .events = POLLIN };
    for (size_t i = 0; i < g->n; i++)
        g->watch[n++] = (struct pollfd){ .fd = g->dial[i].fd,
                                         .events = g->dial[i].sent < HELLO ? POLLOUT : POLLIN };
    for (size_t i = 0; i < guests; i++)
        g->watch[n++] = (struct pollfd){ .fd = g->guest[i].fd, .events = POLLIN };
    if (poll(g->watch, n, deadline_sleep_ms(l)) < 0)
        return errno == EINTR ? 0 : -1;
    for (size_t i = 0; i < g->n; i++) {
        if (!g->watch[1 + i].revents || g->dial[i].fd < 0)
            continue;
        if (g->dial[i].sent < HELLO)
            dial_say(&g->dial[i]);
        else
            dial_hear(&g->dial[i]);
    }
    for (size_t i = guests; i-- > 0;)
        if (g->watch[1 + g->n + i].revents && !guest_hear(g, &g->guest[i]))
            g->guest[i] = g->guest[--g->n_guests];
    if (g->watch[0].revents)
        take_guests(g);
    return 0;
}

/* The time is over, or all peers are decided: closes what is still open and records the errors. */
static void part(struct meeting *g)
{
    for (size_t i = 0; i < g->n; i++) {
        struct mesh_dial *d = &g->dial[i];

        if (d->fd >= 0)
            dial_fail(d,
                      d->sent ? "it took the connection, but does not answer"
                              : "no answer (a firewall, or a host that is down)",
                      0);
        if (d->line->in < 0)
            snprintf(d->peer->silent, sizeof d->peer->silent, "no connection from rank %u came",
                     d->peer->rank);
    }
    g->mesh->strangers += (unsigned)g->n_guests;
    for (size_t i = 0; i < g->n_guests; i++)
        fd_close(&g->guest[i].fd);
}

static int meet(struct meeting *g, struct mesh_peer *peers, const struct deadline *l,
                struct err *err)
{
    for (size_t i = 0; i < g->n; i++)
        if (!line_add(g->mesh, peers[i].rank))
            return err_set(err, "out of memory");
    for (size_t i = 0; i < g->n; i++) {
        g->dial[i].peer = &peers[i];
        g->dial[i].line = line_to(g->mesh, peers[i].rank); /* the table does not move any more */
        peers[i].error[0] = peers[i].silent[0] = '\0';
        dial_start(g, &g->dial[i]);
    }
    while (!settled(g)) {
        struct err over = { "" };

        if (deadline_check(l, "the others", &over) < 0) {
            if (l->stopped && clock_now(&clock_system) < l->until_ns) {
                part(g);
                return err_set(err, "%s", over.text);
            }
            break;
        }
        if (meet_once(g, l) < 0) {
            part(g);
            return err_set(err, "can't wait for connections: %s", strerror(errno));
        }
    }
    part(g);
    return 0;
}

int mesh_connect(struct mesh *m, unsigned self, unsigned attempt, struct mesh_peer *peers, size_t n,
                 const struct deadline *l, struct err *err)
{
    struct meeting *g = calloc(1, sizeof *g);
    int rc = -1;

    if (n > MESH_PEERS_MAX) {
        free(g);
        return err_set(err, "%zu peers; at most %u", n, MESH_PEERS_MAX);
    }
    if (g) {
        g->mesh = m;
        g->self = self;
        g->attempt = attempt;
        g->n = n;
        g->dial = calloc(n + 1, sizeof *g->dial);
        g->watch = calloc(1 + n + GUESTS_MAX, sizeof *g->watch);
    }
    if (g && g->dial && g->watch)
        rc = meet(g, peers, l, err);
    else
        err_set(err, "out of memory");
    if (g) {
        free(g->dial);
        free(g->watch);
    }
    free(g);
    return rc;
}
