/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose text explains the loss of a node: the end of a connection says less than an engine, which
 * may need a moment to find out why. And how long engines may take for their end. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/unit/kernel/agents/stage.h"
#include "tests/unit/tap.h"

#define REASON  "job 17 was cancelled: its time is over"
#define CLOSED  "its agent has ended, or was cut off: the connection was closed"
#define WAITING "echo nodes 2; read word <$CELLSPAN_LIBEXECDIR/word; echo '" REASON "' >&2; exit 1"

/* The engine waits for a line of it. Its descriptor: open for reading too, so that nobody waits for
 * the other side. */
static int make_word(const struct stage *s)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/word", s->folder);
    if (mkfifo(path, 0600) < 0 || (fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
        abort();
    return fd;
}

static const struct node_link *link_of(const struct stage *s, unsigned node)
{
    return node_table_get(&s->agents->nodes, node);
}

/* The agent's connection ends while the engine runs, and the kernel sees it; from then on time
 * stands still. */
static unsigned cut_off(struct stage *s, struct peer peer[2], const char *shell)
{
    const unsigned engine = stage_engine(s, shell), first = stage_first(s, engine);

    ok(peers_up(s, peer, 2, first), "two agents are up");
    stage_still(s);
    peer_close(&peer[0]);
    for (unsigned k = 0; link_of(s, first)->fd >= 0 && k < 12000; k++)
        stage_pass(s, 5);
    ok(link_of(s, first)->fd < 0 && !engines_run(s->engines, engine)->ended,
       "one's connection ends before its engine");
    return first;
}

static void an_engine_may_take_its_time(void)
{
    struct stage s;
    struct peer peer[2];
    const struct engine_run *run;
    unsigned first;
    int word;

    stage_open(&s);
    word = make_word(&s);
    first = cut_off(&s, peer, WAITING);
    run = engines_run(s.engines, link_of(&s, first)->node.engine);
    stage_skip(&s, 1500);
    is_int(s.n_lost, 0, "an engine that is slow is waited for: %s", s.why[first]);
    ok(link_of(&s, first)->node.leaving && !link_of(&s, first + 1)->node.leaving,
       "meanwhile cells know who is about to be lost");
    ok(write(word, "go\n", 3) == 3, "then it sees why");
    for (unsigned k = 0; !run->ended && k < 12000; k++)
        stage_pass(&s, 5);
    ok(run->ended, "and ends");
    stage_skip(&s, 1000); /* less than is left of what it may take */
    is_int(s.lost[first], 1, "who has ended is waited for no longer");
    is_text(s.why[first], REASON, "the loss has its words");
    ok(s.lost[first + 1] == 1 && strcmp(s.why[first + 1], REASON) == 0,
       "so has that of whoever was still connected");
    is_int(s.failed, 0, "all were up: it is no failure to start");
    peer_close(&peer[1]);
    close(word);
    stage_close(&s);
}

static void one_without_words_is_waited_for_in_vain(void)
{
    struct stage s;
    struct peer peer[2];
    unsigned first;

    stage_open(&s);
    first = cut_off(&s, peer, "echo nodes 2");
    stage_skip(&s, 2500);
    is_int(s.n_lost, 0, "an engine that is silent is waited for: %s", s.why[first]);
    stage_skip(&s, 1000);
    is_int(s.lost[first], 1, "but not for good");
    is_text(s.why[first], CLOSED, "what is known then is that the connection ended");
    is_int(s.lost[first + 1], 0, "the other one is still connected");
    peer_close(&peer[1]);
    stage_close(&s);
}

/* Of those that can't resume, the end of the connection is the agent's end in any case. */
static void one_that_says_that_it_ends_is_lost_no_later(void)
{
    const struct span quit = { .kind = SPAN_QUIT };
    struct stage s;
    struct peer peer[2];
    unsigned first;

    stage_open(&s);
    first = stage_first(&s, stage_engine(&s, "echo nodes 2"));
    ok(peers_up(&s, peer, 2, first), "two agents are up");
    peer_say(&peer[0], first, 0, &quit);
    for (unsigned k = 0; !link_of(&s, first)->agent_ends && k < 12000; k++)
        stage_pass(&s, 5);
    peer_close(&peer[0]);
    for (unsigned k = 0; link_of(&s, first)->fd >= 0 && k < 12000; k++)
        stage_pass(&s, 5);
    stage_still(&s);
    stage_skip(&s, 4000);
    ok(s.lost[first] == 1 && s.lost[first + 1] == 0, "an agent that said QUIT is lost soon: %s",
       s.why[first]);
    peer_close(&peer[1]);
    stage_close(&s);
}

static void wakes(int signo)
{
    (void)signo;
}

/* Signals, such as those of children that end, cut sleeps short: time counts, not sleeps. */
static void an_engine_has_its_time_to_end(void)
{
    const struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
    char mark[] = "/tmp/cellspan-ended-XXXXXX";
    struct stage s;
    int fd = mkstemp(mark);

    if (fd < 0 || setenv("MARK", mark, 1) < 0)
        abort();
    stage_open(&s);
    (void)stage_first(&s, stage_engine(&s, "echo nodes 2; cat >/dev/null; sleep 1; echo >$MARK"));
    (void)signal(SIGALRM, wakes);
    (void)setitimer(ITIMER_REAL, &often, NULL);
    stage_close(&s);
    (void)setitimer(ITIMER_REAL, &never, NULL);
    is_int(lseek(fd, 0, SEEK_END), 1, "an engine that needs a second to end has it");
    close(fd);
    unlink(mark);
}

int main(void)
{
    stage_ready();
    an_engine_has_its_time_to_end();
    an_engine_may_take_its_time();
    one_without_words_is_waited_for_in_vain();
    one_that_says_that_it_ends_is_lost_no_later();
    return plan_done();
}
