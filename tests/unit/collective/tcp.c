/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of worker/collective/{mesh,stream,tcp,measure}.h: ranks are processes over the loopback. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "worker/collective/mesh.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"
#include "worker/collective/transport.h"

#ifndef POLLRDHUP
#define POLLRDHUP POLLPRI
#endif
#define RANKS 4u
static const uint8_t token[MESH_TOKEN] = "0123456789abcde";

/* What a rank tells the test at its end. */
struct told {
    struct figure rows[8];
    unsigned n;
    unsigned errors, silent; /* peers */
    struct err err;
};

struct world {
    unsigned ranks;
    unsigned port[RANKS];
    int pipe[RANKS][2], go[RANKS][2];
    pid_t pid[RANKS];
};

typedef void (*play_f)(struct mesh *m, const struct world *w, unsigned self, struct told *told);

/* Each rank opens its port, learns the others', connects, plays, and tells. */
static void rank_main(struct world *w, unsigned self, double seconds, play_f play)
{
    struct told told = { .n = 0 };
    struct err err = { "" };
    struct mesh *m = mesh_open("127.0.0.1", token, &err);
    struct mesh_peer peer[RANKS];
    unsigned port = m ? mesh_port(m) : 0, n = 0;
    struct deadline l;

    memset(peer, 0, sizeof peer);
    if (write(w->pipe[self][1], &port, sizeof port) != sizeof port ||
        read(w->go[self][0], w->port, sizeof w->port) != sizeof w->port)
        _exit(1);
    l = deadline_in(seconds, NULL, NULL);
    for (unsigned i = 0; i < w->ranks; i++) {
        if (i == self)
            continue;
        peer[n].rank = i;
        snprintf(peer[n++].where, MESH_WHERE, "127.0.0.1:%u", w->port[i]);
    }
    if (mesh_connect(m, self, 1, peer, n, &l, &told.err) < 0)
        _exit(2);
    for (unsigned i = 0; i < n; i++) {
        told.errors += peer[i].error[0] != '\0';
        told.silent += peer[i].silent[0] != '\0';
    }
    play(m, w, self, &told);
    mesh_close(m);
    _exit(write(w->pipe[self][1], &told, sizeof told) == sizeof told ? 0 : 1);
}

static void world_start(struct world *w, unsigned ranks, double seconds, play_f play)
{
    memset(w, 0, sizeof *w);
    w->ranks = ranks;
    fflush(stdout);
    for (unsigned i = 0; i < ranks; i++)
        if (pipe(w->pipe[i]) < 0 || pipe(w->go[i]) < 0)
            exit(1);
    for (unsigned i = 0; i < ranks; i++) {
        if ((w->pid[i] = fork()) == 0)
            rank_main(w, i, seconds, play);
    }
    for (unsigned i = 0; i < ranks; i++)
        if (read(w->pipe[i][0], &w->port[i], sizeof w->port[i]) != sizeof w->port[i])
            exit(1);
}

static void world_go(struct world *w)
{
    for (unsigned i = 0; i < w->ranks; i++)
        if (write(w->go[i][1], w->port, sizeof w->port) != sizeof w->port)
            exit(1);
}

static void world_end(struct world *w, struct told *told)
{
    for (unsigned i = 0; i < w->ranks; i++) {
        close(w->pipe[i][1]);
        memset(&told[i], 0, sizeof told[i]);
        if (read(w->pipe[i][0], &told[i], sizeof told[i]) < 0)
            diag("rank %u told nothing", i);
        waitpid(w->pid[i], NULL, 0);
        close(w->pipe[i][0]);
        close(w->go[i][0]);
        close(w->go[i][1]);
    }
}

static struct transport *join(const struct mesh *m, const struct world *w, unsigned self,
                              struct err *err)
{
    const unsigned next = (self + 1) % w->ranks, previous = (self + w->ranks - 1) % w->ranks;

    return tcp_create(self, w->ranks,
                      (struct stream_end){ mesh_to(m, self, previous, NULL, 0), previous },
                      (struct stream_end){ mesh_to(m, self, next, NULL, 0), next }, err);
}

static void play_measure(struct mesh *m, const struct world *w, unsigned self, struct told *told)
{
    static const uint64_t sizes[] = { 8, 1000003 };
    struct deadline l = deadline_in(60, NULL, NULL);
    struct transport *t = join(m, w, self, &told->err);

    (void)!measure(t, 7, sizes, 2, 10.0, &l, told->rows, &told->n, &told->err);
    transport_destroy(t);
}

static void worlds_are_measured(void)
{
    for (unsigned ranks = 2; ranks <= RANKS; ranks++) {
        struct world w;
        struct told told[RANKS];
        unsigned bad = 0, rows = 0, errors = 0;

        world_start(&w, ranks, 60, play_measure);
        world_go(&w);
        world_end(&w, told);
        for (unsigned i = 0; i < ranks; i++) {
            rows += told[i].n == told[0].n && told[i].n >= 3;
            errors += told[i].errors + told[i].silent + (told[i].err.text[0] != '\0');
            for (unsigned k = 0; k < told[i].n; k++)
                bad += told[i].rows[k].bad != 0 || !(told[i].rows[k].us > 0);
        }
        is_int(errors, 0, "%u ranks: nothing fails (%s)", ranks, told[0].err.text);
        is_int(rows, ranks, "%u ranks: all have the same rows", ranks);
        is_int(bad, 0, "%u ranks: every element arrives as it should", ranks);
        is_int((int64_t)told[0].rows[told[0].n - 1].bytes % 4, 0,
               "%u ranks: sizes are whole numbers of float32", ranks);
    }
}

static void play_death(struct mesh *m, const struct world *w, unsigned self, struct told *told)
{
    if (self == 2)
        _exit(0);
    play_measure(m, w, self, told);
}

static void a_dead_rank_is_named(void)
{
    struct world w;
    struct told told[RANKS];

    world_start(&w, 3, 60, play_death);
    world_go(&w);
    world_end(&w, told);
    ok(strstr(told[0].err.text, "rank 2") != NULL, "who waits for a rank that died says so (%s)",
       told[0].err.text);
    ok(told[1].err.text[0] != '\0', "and the others end as well (%s)", told[1].err.text);
}

static void play_hang(struct mesh *m, const struct world *w, unsigned self, struct told *told)
{
    static const uint64_t size = 64;
    struct deadline l = deadline_in(0.3, NULL, NULL);
    struct transport *t;

    if (self == 1) {
        struct pollfd other = { .fd = mesh_to(m, 1, 0, NULL, 0), .events = POLLRDHUP };

        (void)!poll(&other, 1, 60000); /* hangs until the other one has given up */
        return;
    }
    t = join(m, w, self, &told->err);
    (void)!measure(t, 1, &size, 1, 0.1, &l, told->rows, &told->n, &told->err);
    transport_destroy(t);
}

static void a_hanging_rank_holds_nobody(void)
{
    struct world w;
    struct told told[RANKS];

    world_start(&w, 2, 60, play_hang);
    world_go(&w);
    world_end(&w, told);
    ok(strstr(told[0].err.text, "rank 1 did not answer within 0.3 s") != NULL,
       "who waits for a rank that hangs says so (%s)", told[0].err.text);
}

static void play_nothing(struct mesh *m, const struct world *w, unsigned self, struct told *told)
{
    (void)self;
    told->n = mesh_strangers(m);
    (void)w;
}

static void a_port_that_is_not_there_is_named(void)
{
    struct world w;
    struct told told[RANKS];

    world_start(&w, 3, 5, play_nothing);
    w.port[2] = 1; /* what ranks 0 and 1 learn; and rank 2 of itself, which does not matter */
    world_go(&w);
    world_end(&w, told);
    is_int(told[0].errors, 1, "rank 0 can't reach rank 2");
    is_int(told[0].silent, 0, "but is reached from there");
    is_int(told[2].silent, 2, "rank 2 gets nothing from the two others");
    is_int(told[2].errors, 0, "and reaches them");
}

/* Knocks at the port with something else than a hello. */
static void knock(unsigned port, const void *bytes, size_t n)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        (void)!send(fd, bytes, n, MSG_NOSIGNAL);
    /* the descriptor stays open until the test ends: a stranger who waits holds nobody up */
}

static void strangers_are_turned_away(void)
{
    char hello[64] = "CSMESH1\0wrong token, wrong tok";
    char garbage[4096];
    struct world w;
    struct told told[RANKS];

    memset(garbage, 'x', sizeof garbage);
    world_start(&w, 2, 60, play_nothing);
    knock(w.port[0], hello, 40);
    knock(w.port[0], garbage, sizeof garbage);
    knock(w.port[0], "", 0);
    world_go(&w);
    world_end(&w, told);
    is_int(told[0].errors + told[0].silent + told[1].errors + told[1].silent, 0,
           "strangers don't keep the ranks from meeting");
    is_int(told[0].n, 3, "and are counted, whether they said something or not");
}

/* More than there are places for those that have not said who they are. */
static void the_silent_keep_nobody_out(void)
{
    struct world w;
    struct told told[RANKS];

    world_start(&w, 2, 60, play_nothing);
    for (unsigned i = 0; i < 300; i++)
        knock(w.port[0], "", 0);
    world_go(&w);
    world_end(&w, told);
    is_int(told[0].errors + told[0].silent + told[1].errors + told[1].silent, 0,
           "hundreds of strangers who say nothing don't keep the ranks from meeting");
    is_int(told[0].n, 300, "they are turned away, and counted");
}

static bool called_off(void *arg)
{
    unsigned *looks = arg;

    return ++*looks > 3;
}

static void a_wait_can_be_called_off(void)
{
    struct err err = { "" };
    struct mesh *m = mesh_open("127.0.0.1", token, &err);
    struct mesh_peer peer = { .rank = 1, .where = "127.0.0.1:1" };
    unsigned looks = 0;
    struct deadline l = deadline_in(30, called_off, &looks);

    ok(m != NULL, "a port is opened (%s)", err.text);
    is_int(mesh_connect(m, 0, 1, &peer, 1, &l, &err), -1, "a wait is called off");
    ok(strstr(err.text, "interrupted") != NULL, "in words (%s)", err.text);
    ok(strstr(peer.error, "127.0.0.1:1") != NULL, "what failed before is known (%s)", peer.error);
    mesh_close(m);
    mesh_close(NULL);
    err.text[0] = '\0';
    ok(!mesh_open("nowhere.example", token, &err) && err.text[0], "an address is numeric (%s)",
       err.text);
    err.text[0] = '\0';
    ok(!mesh_open("192.0.2.1", token, &err) && err.text[0], "and one of this host (%s)", err.text);
}

static void the_way_is_agreed_on(void)
{
    const struct mesh_way closed[] = { { 1, 0 } };
    struct err err = { "" };
    struct mesh *m = mesh_open("127.0.0.1", token, &err);

    is_int(mesh_to(m, 0, 1, closed, 1), -1, "to who was never met there is no way");
    mesh_close(m);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    worlds_are_measured();
    a_dead_rank_is_named();
    a_hanging_rank_holds_nobody();
    a_port_that_is_not_there_is_named();
    strangers_are_turned_away();
    the_silent_keep_nobody_out();
    a_wait_can_be_called_off();
    the_way_is_agreed_on();
    return plan_done();
}
