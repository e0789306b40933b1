/* SPDX-License-Identifier: BSD-3-Clause */
/* %ranks check: its steps one after the other, and the report made from the answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/settings.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

static void probed(struct world *w, uint32_t worker, const char *status, const char *content)
{
    struct span m = { .kind = SPAN_PROBED, .cell = w->nb->cells ? w->nb->cells->id : 0 };

    m.v[F_PROBED_STATUS].s = slice_text(status);
    m.v[F_PROBED_CONTENT].s = slice_text(content);
    say(w, worker, m);
}

static void both(struct world *w, const char *content)
{
    probed(w, 2, "ok", content);
    probed(w, 3, "ok", content);
}

static void facts(struct world *w, uint32_t worker, double off, const char *torch, int shm)
{
    char text[512];

    snprintf(
        text, sizeof text,
        "{\"python\": \"3.11.7\", \"torch\": \"%s\", \"cellspan\": \"1\", \"clock\": %.3f, \"hostname\": \"h\", "
        "\"addresses\": "
        "[[\"eth0\", \"10.0.0.%u\"]], \"shm_size\": 1073741824, \"shm_free\": %d, \"driver\": null, \"nccl\": "
        "null, \"gpus\": []}",
        torch, (double)WORLD_WALL_S + (double)w->now / 1e9 + off, worker, shm);
    probed(w, worker, "ok", text);
}

/* Two idle ranks, workers 2 and 3, and a check that has asked for facts. */
static void begin_check(struct world *w, struct clock *clock, const char *code)
{
    world_open(w, clock);
    begin_two(w);
    done(w, 2, "ok", "", "");
    done(w, 3, "ok", "", "");
    buf_clear(&w->log);
    run(w, code);
}

static bool has(struct slice in, const char *text)
{
    for (size_t at = 0; at + strlen(text) <= in.n; at++)
        if (memcmp(in.p + at, text, strlen(text)) == 0)
            return true;
    return false;
}

/* What the last PROBE asked. */
static bool asked(struct world *w, const char *what, const char *in_content)
{
    struct span m;
    struct err err = { "" };
    bool found;

    if (span_decode(&m, w->sent.p, w->sent.n, &err) < 0 || m.kind != SPAN_PROBE)
        return false;
    found = slice_is(m.v[F_PROBE_WHAT].s, what) &&
            (in_content[0] == '\0' || has(buf_slice(&w->sent), in_content));
    if (!found)
        diag("asked %.*s %.*s", SLICE_ARG(m.v[F_PROBE_WHAT].s), SLICE_ARG(m.v[F_PROBE_CONTENT].s));
    return found;
}

static const char rows[] =
    "{\"transport\": \"tcp\", \"rows\": [{\"op\": \"all_reduce\", \"bytes\": 1048576, \"us\": 1000.0, \"algbw\": 1.5, "
    "\"busbw\": 2.25, \"bad\": 0, \"iterations\": 5}], \"pairs\": [], \"error\": \"\"}";

static void a_check_goes_step_by_step(void)
{
    struct clock clock;
    struct world w;

    begin_check(&w, &clock, "%ranks check");
    ok(times(&w, "send PROBE") == 2 && asked(&w, "facts", "\"WORLD_SIZE\":\"2\""),
       "first both ranks are asked for facts, with their world's environment");
    facts(&w, 2, 0, "2.5.1", 1 << 30);
    ok(times(&w, "send PROBE") == 2, "the next step does not begin before both have answered");
    facts(&w, 3, 0, "2.5.1", 1 << 30);
    ok(logged(&w, "python") && logged(&w, "eth0=10.0.0.2") && !strstr(w.log.p, "differs") &&
           !strstr(w.log.p, "clock of"),
       "the facts of the nodes are shown, without a line about differences");
    ok(asked(&w, "listen", "\"address\":\"127.0.0.1\""),
       "then each rank listens at its node's address");
    probed(&w, 2, "ok", "{\"port\": 4001, \"nccl_id\": null}");
    probed(&w, 3, "ok", "{\"port\": 4002, \"nccl_id\": null}");
    ok(asked(&w, "connect", "[[0,\"127.0.0.1:4001\"]]"), "then each rank connects to the other");
    probed(&w, 2, "ok", "{\"peers\": [{\"rank\": 1, \"error\": \"\", \"silent\": \"\"}]}");
    probed(&w, 3, "ok", "{\"peers\": [{\"rank\": 0, \"error\": \"\", \"silent\": \"\"}]}");
    ok(asked(&w, "check", "\"pairs\":[[0,1]]") && asked(&w, "check", "\"order\":[]"),
       "then the pair of ranks is measured");
    probed(
        &w, 2, "ok",
        "{\"rows\": [], \"pairs\": [{\"a\": 0, \"b\": 1, \"us\": 30, \"gbps\": 1.25, \"bad\": 0, \"error\": \"\"}], "
        "\"error\": \"\"}");
    probed(
        &w, 3, "ok",
        "{\"rows\": [], \"pairs\": [{\"a\": 0, \"b\": 1, \"us\": 35, \"gbps\": 1.5, \"bad\": 0, \"error\": \"\"}], "
        "\"error\": \"\"}");
    ok(logged(&w, "1 pair of ranks over tcp") && logged(&w, "35") && logged(&w, "1.25"),
       "the slower of both results is shown for the pair");
    ok(asked(&w, "check", "\"order\":[0,1]"), "then the whole world is measured");
    both(&w, rows);
    ok(logged(&w, "all_reduce  1048576     1000.0         1.500         2.250      0"),
       "the result of the world has the columns of nccl-tests");
    ok(asked(&w, "close", ""), "at the end the ranks are told to close their connections");
    both(&w, "{}");
    ok(in_order(&w, "all 2 ranks over tcp", "reply execute_reply {\"status\":\"ok\"") &&
           !w.nb->cells,
       "the check ends well, after its table");
    world_close(&w);
}

/* Ranks have aborted torch's process groups, in a check or before a cell: the next cell's world is
 * a new one, so that --init makes new ones on all ranks. */
static void aborted_groups_are_left(void)
{
    struct span m = { .kind = SPAN_DONE };
    struct clock clock;
    struct world w;

    begin_check(&w, &clock, "%ranks check");
    facts(&w, 2, 0, "2.5.1", 1 << 30);
    facts(&w, 3, 0, "2.5.1", 1 << 30);
    both(&w, "{\"port\": 4001, \"nccl_id\": null}");
    both(&w, "{\"peers\": []}");
    both(&w, "{\"rows\": [], \"pairs\": [], \"error\": \"\", \"aborted\": false}");
    ok(!w.nb->group->broken, "a check in which nothing was aborted leaves the world");
    probed(&w, 2, "ok", "{\"rows\": [], \"pairs\": [], \"error\": \"\", \"aborted\": true}");
    probed(&w, 3, "ok", "{\"rows\": [], \"pairs\": [], \"error\": \"\", \"aborted\": false}");
    both(&w, "{}");
    ok(!w.nb->cells && w.nb->group->broken, "one rank's abort ends the world of all");
    run(&w, "%%distribute\n1");
    provide(&w);
    ok(w.nb->group->restarts == 1 && !w.nb->group->broken, "the next cell has a new one");
    m.cell = w.nb->cells->id;
    m.v[F_DONE_STATUS].s = slice_text("ok");
    m.v[F_DONE_FLAGS].u64 = DONE_ABORTED | DONE_DISTRIBUTED;
    say(&w, 2, m);
    done(&w, 3, "ok", "", "");
    ok(!w.nb->cells && w.nb->group->broken, "so it is if a rank says it at the end of a cell");
    world_close(&w);
}

static void to_pairs(struct world *w, const char *peers)
{
    facts(w, 2, 0, "2.5.1", 1 << 30);
    facts(w, 3, 0, "2.5.1", 1 << 30);
    both(w, "{\"port\": 4001}");
    probed(w, 2, "ok", peers);
    probed(w, 3, "ok", "{\"peers\": []}");
}

static void what_differs_is_named(void)
{
    struct clock clock;
    struct world w;

    begin_check(&w, &clock, "%ranks check");
    facts(&w, 2, 86400, "2.5.1", 1 << 20);
    facts(&w, 3, 86400, "2.4.0", 1 << 20);
    ok(logged(&w, "torch differs: 2.5.1 on here, 2.4.0 on here"),
       "different versions of torch are named");
    ok(logged(&w, "the clock of here is 24.0 hours ahead of the kernel's"),
       "a clock that differs by a day is named");
    ok(logged(&w, "/dev/shm of here has 1.0 MiB left"), "a full /dev/shm is named");
    ok(asked(&w, "listen", ""), "such differences do not end the check");
    world_close(&w);
}

static void networks_are_told_and_nccl_takes_equal_versions(void)
{
    static const char text[] =
        "{\"python\": \"3.11.7\", \"clock\": 1, \"hostname\": \"h\", \"addresses\": [[\"eth0\", \"10.0.0.2\"]], "
        "\"speeds\": {\"eth0\": 25000}, \"infiniband\": [\"mlx5_0: 400 Gb/sec (4X NDR)\"], \"memlock\": 65536, "
        "\"shm_free\": 1073741824, \"driver\": \"12.4\", \"nccl\": \"%s\", \"gpus\": [[\"GPU-1\", \"A100\"]]}";
    char content[512];
    struct clock clock;
    struct world w;

    for (unsigned k = 0; k < 2; k++) {
        begin_check(&w, &clock, "%ranks check");
        snprintf(content, sizeof content, text, "2.23.4");
        probed(&w, 2, "ok", content);
        snprintf(content, sizeof content, text, k ? "2.23.4" : "2.23.5");
        probed(&w, 3, "ok", content);
        ok(logged(&w, "eth0 25") && logged(&w, "mlx5_0: 400 Gb/sec (4X NDR)"),
           "the speed of links and InfiniBand is shown");
        ok(logged(&w, "lets a process pin 64 KiB of memory"),
           "a memory limit that is too low for NCCL is named");
        ok(k == !logged(&w, "NCCL can't be checked: not every rank has one of the same version"),
           "NCCL is checked only if the whole version is equal on all ranks");
        world_close(&w);
    }
}

static void a_dead_link_fails_the_check(void)
{
    struct clock clock;
    struct world w;

    begin_check(&w, &clock, "%ranks check");
    to_pairs(
        &w,
        "{\"peers\": [{\"rank\": 1, \"error\": \"127.0.0.1:4001: no answer\", \"silent\": \"nothing came\"}]}");
    ok(asked(&w, "check", "\"closed\":[[0,1],[1,0]]"),
       "ranks are told which connections are not possible");
    both(
        &w,
        "{\"pairs\": [{\"a\": 0, \"b\": 1, \"us\": 0, \"gbps\": 0, \"bad\": 0, \"error\": \"no way to rank 1\"}]}");
    ok(logged(&w, "closed: from rank 0 to rank 1: 127.0.0.1:4001: no answer") &&
           logged(&w, "dead: ranks 0 and 1 (here): no way"),
       "these connections and the pair are named");
    ok(asked(&w, "close", ""), "the whole world is not measured if ranks can't reach each other");
    both(&w, "{}");
    ok(logged(&w,
              "\"ename\":\"LinkError\",\"evalue\":\"ranks 0 and 1 (here): no way to rank 1\"") &&
           !w.nb->cells,
       "the check fails with a LinkError");
    ok(w.nb->group->rank[0].state == RANK_IDLE, "the ranks are idle after the failed check");
    world_close(&w);
}

static void a_rank_that_refuses_ends_it(void)
{
    struct clock clock;
    struct world w;

    begin_check(&w, &clock, "%ranks check -r 0");
    ok(times(&w, "send PROBE 2") == 1 && times(&w, "send PROBE") == 1,
       "%%ranks check -r 0 asks only rank 0");
    probed(&w, 2, "error", "{\"error\": \"this rank knows no probe\"}");
    ok(logged(&w, "CheckError") && logged(&w, "rank 0 on here: this rank knows no probe") &&
           !w.nb->cells,
       "a rank's error ends the check, and is shown");
    world_close(&w);
}

static void interrupts_and_deaths(void)
{
    struct clock clock;
    struct world w;

    begin_check(&w, &clock, "%ranks check");
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 2 3"), "an interrupt of a check is sent to the ranks");
    probed(&w, 2, "error", "{\"error\": \"interrupted\"}");
    probed(&w, 3, "error", "{\"error\": \"interrupted\"}");
    ok(logged(&w, "\"ename\":\"KeyboardInterrupt\"") && !w.nb->cells,
       "when the ranks have stopped, the check ends with KeyboardInterrupt");
    buf_clear(&w.log);
    run(&w, "%ranks check");
    exited(&w, 3, 1, 9);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "RankDied") && logged(&w, "send INTERRUPT 2"),
       "a rank that dies in a check is reported, and the other is interrupted");
    probed(&w, 2, "error", "{\"error\": \"interrupted\"}");
    ok(logged(&w, "execute_reply") && !w.nb->cells,
       "the check fails when the other rank has stopped");
    buf_clear(&w.log);
    probed(&w, 2, "ok", "{}");
    ok(!w.nb->cells, "a late answer has no effect");
    world_close(&w);
}

/* What the log has now holds the text; the log is emptied. */
static bool was_logged(const char *path, const char *text)
{
    char said[4096] = "";
    FILE *f = fopen(path, "re");

    if (f) {
        (void)!fread(said, 1, sizeof said - 1, f);
        fclose(f);
        (void)!truncate(path, 0);
    }
    return strstr(said, text) != NULL;
}

static void to_close(struct world *w, const char *closed)
{
    to_pairs(w, "{\"peers\": []}");
    both(w, "{\"rows\": [], \"pairs\": [], \"error\": \"\"}");
    both(w, rows);
    probed(w, 2, "ok", closed);
    probed(w, 3, "ok", "{}");
}

static void strangers_are_logged(void)
{
    char path[] = "/tmp/cellspan-check-XXXXXX", level[64];
    const int fd = mkstemp(path);
    struct clock clock;
    struct world w;

    snprintf(level, sizeof level, "warn:%s", path);
    setenv("CELLSPAN_LOG", level, 1);
    settings_open_log("check.t");
    begin_check(&w, &clock, "%ranks check");
    to_close(&w, "{\"strangers\": 2}");
    ok(was_logged(path,
                  "refused: 2 connections to rank 0 on here that did not know the check's token"),
       "connections without the check's token are logged");
    world_close(&w);
    begin_check(&w, &clock, "%ranks check");
    to_close(&w, "{\"strangers\": 0}");
    ok(!was_logged(path, "refused"), "without such connections nothing is logged");
    world_close(&w);
    unsetenv("CELLSPAN_LOG");
    settings_open_log("check.t");
    close(fd);
    unlink(path);
}

static void a_rank_may_die_between_its_answers(void)
{
    struct clock clock;
    struct world w;

    begin_check(&w, &clock, "%ranks check");
    facts(&w, 3, 0, "2.9.0", 0);
    exited(&w, 3, 1, 9);
    facts(&w, 2, 0, "2.9.0", 0);
    ok(logged(&w, "RankDied") && !w.nb->cells, "a rank that dies after its answer ends the check");
    buf_clear(&w.log);
    run(&w, "%ranks check -r 9");
    ok(logged(&w, "UsageError") && logged(&w, "execute_reply") && !w.nb->cells,
       "%%ranks check with a rank that does not exist is refused");
    ok(!times(&w, "send START"), "that refusal starts no ranks");
    world_close(&w);
}

static void needs_ranks(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%ranks check");
    ok(logged(&w, "there are no ranks yet"), "%%ranks check without ranks is refused");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        return 1;
    a_check_goes_step_by_step();
    what_differs_is_named();
    aborted_groups_are_left();
    networks_are_told_and_nccl_takes_equal_versions();
    a_dead_link_fails_the_check();
    a_rank_that_refuses_ends_it();
    interrupts_and_deaths();
    a_rank_may_die_between_its_answers();
    needs_ranks();
    strangers_are_logged();
    return plan_done();
}
