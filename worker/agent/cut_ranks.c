/* SPDX-License-Identifier: BSD-3-Clause */
/* cut_ranks.c - see cut_ranks.h. It reads Linux's /proc. On other systems no connection is found,
 * and a worker that hangs is killed after its grace. */
#include "worker/agent/cut_ranks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/le.h"
#include "base/log.h"
#include "base/rows.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/private.h"
#include "worker/agent/processes/worker.h"

#define ESTABLISHED     1u
#define INODES_MAX      (65536u / 8u) /* CUT_SOCKETS's limit */
#define CONNECTIONS_MAX 1048576u      /* bytes; CONNECTIONS' limit */

struct socket_of {
    uint64_t inode;
    unsigned owner; /* the worker's number */
};

struct tcp_table {
    struct socket_of *socket; /* sorted by inode */
    size_t n_sockets, room_sockets;
    struct tcp_row *row; /* sorted by their ends, in the end by owner */
    size_t n_rows, room_rows;
};

/* ---- pure ---- */

/* The kernel prints an address as 32-bit words in the host's order. */
static int parse_end(const char *text, struct tcp_end *end)
{
    const char *colon = strchr(text, ':');
    const size_t digits = colon ? (size_t)(colon - text) : 0;
    char word[9] = "";

    if (digits != 8 && digits != 32)
        return -1;
    memset(end, 0, sizeof *end);
    if (digits == 8)
        end->address[10] = end->address[11] = 0xff;
    for (size_t i = 0; i < digits / 8; i++) {
        uint32_t value;

        memcpy(word, text + 8 * i, 8);
        value = (uint32_t)strtoul(word, NULL, 16);
        memcpy(end->address + 16 - digits / 2 + 4 * i, &value, 4);
    }
    end->port = (uint16_t)strtoul(colon + 1, NULL, 16);
    return 0;
}

int cut_ranks_parse(const char *line, struct tcp_row *row)
{
    char local[64], peer[64];
    unsigned state;
    unsigned long long inode;

    if (sscanf(line, " %*d: %63s %63s %x %*s %*s %*s %*u %*u %llu", local, peer, &state, &inode) !=
        4)
        return -1;
    if (state != ESTABLISHED || inode == 0)
        return -1;
    row->inode = inode;
    row->owner = CUT_RANKS_NOBODY;
    row->cut = false;
    return parse_end(local, &row->local) < 0 || parse_end(peer, &row->peer) < 0 ? -1 : 0;
}

static int compare_ends(const struct tcp_end *a, const struct tcp_end *b)
{
    const int order = memcmp(a->address, b->address, sizeof a->address);

    return order ? order : (int)a->port - (int)b->port;
}

static int by_ends(const void *a, const void *b)
{
    const struct tcp_row *x = a, *y = b;
    const int order = compare_ends(&x->local, &y->local);

    return order ? order : compare_ends(&x->peer, &y->peer);
}

void cut_ranks_sort(struct tcp_row *row, size_t n)
{
    if (n)
        qsort(row, n, sizeof *row, by_ends);
}

bool cut_ranks_is_between(const struct tcp_row *row, const struct tcp_row *all, size_t n)
{
    const struct tcp_row turned = { .local = row->peer, .peer = row->local };
    size_t low = 0, high = n;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (by_ends(&all[mid], &turned) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < n && by_ends(&all[low], &turned) == 0; low++)
        if (all[low].owner != row->owner)
            return true;
    return false;
}

/* One end of a connection, as in CONNECTIONS. */
static void write_end(const struct tcp_end *end, uint8_t *p)
{
    memcpy(p, end->address, sizeof end->address);
    p[16] = (uint8_t)(end->port >> 8);
    p[17] = (uint8_t)end->port;
}

int cut_ranks_write(const struct tcp_row *row, struct buf *out)
{
    uint8_t p[CUT_RANKS_END_SIZE];

    write_end(&row->local, p);
    write_end(&row->peer, p + CUT_RANKS_END_SIZE / 2);
    return buf_add(out, p, sizeof p);
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, CUT_RANKS_END_SIZE);
}

void cut_ranks_sort_listed(struct buf *connections)
{
    if (connections->n)
        qsort(connections->p, connections->n / CUT_RANKS_END_SIZE, CUT_RANKS_END_SIZE, by_bytes);
}

bool cut_ranks_is_listed(const struct tcp_row *row, struct slice connections)
{
    const struct tcp_row turned = { .local = row->peer, .peer = row->local };
    uint8_t p[CUT_RANKS_END_SIZE];

    write_end(&turned.local, p);
    write_end(&turned.peer, p + CUT_RANKS_END_SIZE / 2);
    return connections.n && bsearch(p, connections.p, connections.n / sizeof p, sizeof p, by_bytes);
}

/* ---- reading /proc ---- */

static int add_socket(struct tcp_table *s, uint64_t inode, unsigned owner)
{
    struct socket_of *p = rows_add(&s->socket, &s->n_sockets, &s->room_sockets, sizeof *p);

    if (!p)
        return -1;
    *p = (struct socket_of){ inode, owner };
    return 0;
}

static int find_sockets(struct tcp_table *s, const struct worker *w)
{
    char path[320], text[64];
    struct dirent *entry;
    DIR *dir;
    int rc = 0;

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)w->state.pid);
    if (w->state.pid <= 0 || !(dir = opendir(path)))
        return 0;
    while (rc == 0 && (entry = readdir(dir))) {
        unsigned long long inode;
        ssize_t n;

        snprintf(path, sizeof path, "/proc/%ld/fd/%s", (long)w->state.pid, entry->d_name);
        if ((n = readlink(path, text, sizeof text - 1)) <= 0)
            continue;
        text[n] = '\0';
        if (sscanf(text, "socket:[%llu]", &inode) == 1)
            rc = add_socket(s, inode, w->id);
    }
    closedir(dir);
    return rc;
}

static int by_inode(const void *a, const void *b)
{
    const uint64_t x = ((const struct socket_of *)a)->inode,
                   y = ((const struct socket_of *)b)->inode;

    return x < y ? -1 : x > y;
}

/* Keeps the connections of the workers. A socket that several workers hold, after a fork, counts
 * for one of them. */
static int find_rows(struct tcp_table *s, const char *path)
{
    FILE *f = fopen(path, "re");
    char line[512];
    int rc = 0;

    while (f && rc == 0 && fgets(line, sizeof line, f)) {
        struct tcp_row row, *p;
        const struct socket_of *of;

        if (cut_ranks_parse(line, &row) < 0)
            continue;
        of = bsearch(&(struct socket_of){ row.inode, 0 }, s->socket, s->n_sockets, sizeof *of,
                     by_inode);
        if (!of)
            continue;
        row.owner = of->owner;
        if ((p = rows_add(&s->row, &s->n_rows, &s->room_rows, sizeof *p)))
            *p = row;
        else
            rc = -1;
    }
    if (f)
        fclose(f);
    return rc;
}

/* ---- telling ---- */

static uint64_t owner_of(const void *rows, size_t i)
{
    return ((const struct tcp_row *)rows)[i].owner;
}

static int by_owner(const void *a, const void *b)
{
    const unsigned x = ((const struct tcp_row *)a)->owner, y = ((const struct tcp_row *)b)->owner;

    return x < y ? -1 : x > y;
}

/* Marks what is to be shut, and then sorts the rows by owner. */
static void choose(struct tcp_table *s, struct slice connections)
{
    struct buf listed = BUF_INIT;

    if (buf_add_slice(&listed, connections) < 0)
        log_error("cut", "out of memory: connections to other machines stay");
    cut_ranks_sort_listed(&listed);
    for (size_t i = 0; i < s->n_rows; i++)
        s->row[i].cut = cut_ranks_is_between(&s->row[i], s->row, s->n_rows) ||
                        cut_ranks_is_listed(&s->row[i], buf_slice(&listed));
    if (s->n_rows)
        qsort(s->row, s->n_rows, sizeof *s->row, by_owner);
    buf_release(&listed);
}

static void cut(struct worker *w, const struct tcp_table *s)
{
    struct span m = { .kind = SPAN_CUT_SOCKETS, .worker = w->id };
    struct buf inodes = BUF_INIT;

    for (size_t i = rows_place(s->row, s->n_rows, owner_of, w->id);
         i < s->n_rows && s->row[i].owner == w->id && inodes.n / 8 < INODES_MAX; i++) {
        uint8_t p[8];

        if (!s->row[i].cut)
            continue;
        le_put(p, sizeof p, s->row[i].inode);
        if (buf_add(&inodes, p, sizeof p) < 0)
            break;
    }
    m.v[F_CUT_SOCKETS_INODES].s = buf_slice(&inodes);
    m.v[F_CUT_SOCKETS_ABORT].u64 = 1;
    relay_tell(w, &m);
    buf_release(&inodes);
}

/* Connections between workers of this node do not concern other nodes. */
static void tell_ends(struct agent *a, const struct tcp_table *s, uint64_t cell)
{
    struct span m = { .kind = SPAN_CONNECTIONS, .cell = cell };
    struct buf connections = BUF_INIT;

    for (size_t i = 0; i < s->n_rows; i++) {
        if (cut_ranks_is_between(&s->row[i], s->row, s->n_rows))
            continue;
        if (connections.n + CUT_RANKS_END_SIZE > CONNECTIONS_MAX ||
            cut_ranks_write(&s->row[i], &connections) < 0) {
            log_error("cut", "there are %zu connections, more than can be said: some stay",
                      s->n_rows);
            break;
        }
    }
    m.v[F_CONNECTIONS_CONNECTIONS].s = buf_slice(&connections);
    kernel_link_send(&a->kernel, &m);
    buf_release(&connections);
}

static void find_all(struct tcp_table *s, const struct agent *a, struct slice workers)
{
    const struct worker *w;
    size_t at = 0;
    int rc = 0;

    while (rc == 0 && (w = worker_next(&a->workers, workers, &at)))
        rc = find_sockets(s, w);
    if (rc == 0 && s->n_sockets) {
        qsort(s->socket, s->n_sockets, sizeof *s->socket, by_inode);
        if ((rc = find_rows(s, "/proc/net/tcp")) == 0)
            rc = find_rows(s, "/proc/net/tcp6");
    }
    cut_ranks_sort(s->row, s->n_rows);
    if (rc < 0)
        log_error("cut", "out of memory: some connections stay");
}

void cut_ranks_on_message(struct agent *a, const struct span *m, struct slice workers)
{
    struct tcp_table s = { .n_rows = 0 };
    struct worker *w;
    size_t at = 0;

    find_all(&s, a, workers);
    if (m->v[F_CUT_RANKS_ASK].u64 == 1) {
        tell_ends(a, &s, m->cell);
    } else {
        choose(&s, m->v[F_CUT_RANKS_CONNECTIONS].s);
        while ((w = worker_next(&a->workers, workers, &at)))
            cut(w, &s);
    }
    free(s.socket);
    free(s.row);
}
