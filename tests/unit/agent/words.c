/* SPDX-License-Identifier: BSD-3-Clause */
/* Pure parts that parse and write texts: causes of death, counters, connections, environments. */
#include <signal.h>
#include <stdlib.h>

#include "base/memory_limit.h"
#include "base/process.h"
#include "tests/unit/tap.h"
#include "worker/agent/processes/death_cause.h"
#include "worker/agent/processes/env.h"
#include "worker/agent/cut_ranks.h"

#define WORDS " \"ipython>=8\" \"comm\" \"cloudpickle>=2\" \"matplotlib-inline\""

static void cause_is(struct death_cause c, const char *want, const char *name)
{
    struct buf out = BUF_INIT;

    c.python = "py";
    ok(death_cause_text(&c, &out) == 0, "memory");
    is_text(out.n ? out.p : "", want, "%s", name);
    buf_release(&out);
}

static void causes_are_named(void)
{
    cause_is((struct death_cause){ .ready = true,
                                   .death.known = true,
                                   .death.code = EXITED_STATUS,
                                   .death.status = 1 },
             "", "an exit needs no cause");
    cause_is((struct death_cause){ .ready = true,
                                   .death.known = true,
                                   .death.code = EXITED_SIGNAL,
                                   .death.status = SIGSEGV },
             "", "nor does a crash");
    cause_is((struct death_cause){ .ready = true,
                                   .death.known = true,
                                   .death.code = EXITED_SIGNAL,
                                   .death.status = SIGKILL,
                                   .oom = OOM_CGROUP },
             "killed by the cgroup's out-of-memory killer", "the cgroup's OOM killer");
    cause_is((struct death_cause){ .ready = true,
                                   .death.known = true,
                                   .death.code = EXITED_SIGNAL,
                                   .death.status = SIGKILL,
                                   .oom = OOM_SYSTEM },
             "killed by Linux's out-of-memory killer", "Linux's, which is not cellspan's kernel");
    cause_is((struct death_cause){ .ready = true,
                                   .death.known = true,
                                   .death.code = EXITED_SIGNAL,
                                   .death.status = SIGKILL },
             "killed by SIGKILL from outside (perhaps the out-of-memory killer)",
             "somebody else's SIGKILL");
    cause_is((struct death_cause){ .ready = true,
                                   .death.known = true,
                                   .death.code = EXITED_SIGNAL,
                                   .death.status = SIGKILL,
                                   .ours = true },
             "", "our own SIGKILL");
    cause_is((struct death_cause){ .python = "py",
                                   .death = { true, EXITED_STATUS, 1 },
                                   .said = slice_text(
                                       "a line\ncellspan: limit: this user may have 9\n") },
             "py exited with status 1 before it was ready: this user may have 9",
             "the limit that kept it from starting");
    cause_is((struct death_cause){ .ready = true, .broke = "it lied" },
             "ended by the agent: it lied", "what we ended ourselves");
}

static void causes_before_it_was_ready(void)
{
    cause_is(
        (struct death_cause){ .death.known = true,
                              .death.code = EXITED_STATUS,
                              .death.status = 1,
                              .said = slice_text("No module named 'IPython'") },
        "py exited with status 1 before it was ready: py has no IPython; run: py -m pip install" WORDS,
        "a python without IPython");
    cause_is(
        (struct death_cause){ .death.known = true,
                              .death.code = EXITED_STATUS,
                              .death.status = 1,
                              .node = "h2",
                              .said = slice_text("py has no cloudpickle: x") },
        "py exited with status 1 before it was ready: py on h2 has no cloudpickle; run there: py -m pip install" WORDS,
        "one on another host");
    cause_is(
        (struct death_cause){ .death.known = true,
                              .death.code = EXITED_STATUS,
                              .death.status = 1,
                              .node = "h2",
                              .said = slice_text("No module named 'cellspan'") },
        "py exited with status 1 before it was ready: no cellspan for py on h2: `py -m pip install cellspan` there, or set "
        "CELLSPAN_REMOTE_PYTHON to a Python that has it",
        "cellspan is missing there");
    cause_is(
        (struct death_cause){
            .death.known = true,
            .death.code = EXITED_STATUS,
            .death.status = 1,
            .node = "h2",
            .said = slice_text("ImportError: /x/_link.abi3.so: undefined symbol: y") },
        "py exited with status 1 before it was ready: cellspan on h2 was built for another system (see the last lines); install it "
        "there again",
        "or was built elsewhere");
}

static void counters_are_read(void)
{
    bool v2;

    is_int(file_number_of(slice_text("oom_kill_disable 0\nunder_oom 0\noom_kill 12\n"), "oom_kill",
                          0),
           12, "oom_kill is its own line");
    is_int(file_number_of(slice_text("oom 3\n"), "oom_kill", 0), 0, "no line is 0");
    ok(slice_is(memory_cgroup(slice_text("4:memory:/a/b\n1:cpu:/\n0::/\n"), &v2), "/a/b") && !v2,
       "the memory cgroup of v1");
    ok(slice_is(memory_cgroup(slice_text("0::/user.slice\n"), &v2), "/user.slice") && v2,
       "the cgroup of v2");
    ok(memory_cgroup(slice_text("nonsense"), &v2).n == 0, "nonsense is none");
}

/* 20,000 pairs: a search through all for each would be 1,600 million comparisons. */
static void many_connections_are_matched(void)
{
    const size_t n = 40000;
    struct tcp_row *row = calloc(n, sizeof *row);
    struct buf ends = BUF_INIT;
    size_t between = 0, listed = 0;
    int rc = row ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        const uint16_t port = (uint16_t)(i / 2 * 7919);

        (i % 2 ? &row[i].local : &row[i].peer)->address[0] = 1;
        row[i].local.port = i % 2 ? 80 : port;
        row[i].peer.port = i % 2 ? port : 80;
        row[i].owner = (unsigned)(i % 2 + 1);
        if (i % 2 && i < n / 2)
            rc = cut_ranks_write(&row[i], &ends);
    }
    cut_ranks_sort(row, n);
    cut_ranks_sort_listed(&ends);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        between += cut_ranks_is_between(&row[i], row, n);
        listed += cut_ranks_is_listed(&row[i], buf_slice(&ends));
    }
    ok(rc == 0 && between == n && listed == n / 4, "of many connections each finds its other end");
    buf_release(&ends);
    free(row);
}

static void connections_are_matched(void)
{
    struct tcp_row row[3];
    struct buf ends = BUF_INIT;

    ok(cut_ranks_parse(
           "  0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  0  0 111 1 0 20 4 30 10 -1",
           &row[0]) == 0 &&
           row[0].inode == 111,
       "an established connection");
    ok(cut_ranks_parse(
           "  1: 0000000000000000FFFF00000100007F:D431 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 "
           "00:00000000 00000000  0  0 222 1 0 20 4 30 10 -1",
           &row[1]) == 0,
       "and its other end, as IPv6 shows it");
    ok(cut_ranks_parse(
           "  2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 333 1",
           &row[2]) < 0,
       "a listening socket is none");
    row[0].owner = 2;
    row[1].owner = 3;
    cut_ranks_sort(row, 2);
    ok(row[0].inode == 111, "they can be sorted");
    ok(cut_ranks_is_between(&row[0], row, 2), "two workers' ends belong together");
    row[1].owner = 2;
    ok(!cut_ranks_is_between(&row[0], row, 2), "a worker's connection to itself is left alone");
    ok(cut_ranks_write(&row[1], &ends) == 0 && ends.n == 36 &&
           cut_ranks_is_listed(&row[0], buf_slice(&ends)),
       "the other node's end is found the other way round");
    ok(!cut_ranks_is_listed(&row[1], buf_slice(&ends)) &&
           !cut_ranks_is_listed(&row[0], slice_of(ends.p, 35)),
       "its own is not, nor a torn one");
    many_connections_are_matched();
    is_int(((unsigned char)ends.p[16] << 8) + (unsigned char)ends.p[17], row[1].local.port,
           "ports are big-endian");
    buf_release(&ends);
}

static void environments_are_made(void)
{
    char *from[] = { "PATH=/bin", "PYTHONUNBUFFERED=1", "PYTHONPATH=/mine", NULL };
    struct env e = ENV_INIT;
    struct err err = { "" };

    ok(env_copy(&e, from, &err) == 0 &&
           env_set_json(&e, slice_text("{\"A\": \"1\", \"PATH\": \"/x\"}"), &err) == 0,
       "an object of strings is taken");
    ok(env_for_worker(&e, "/pkg", NULL, 7, &err) == 0, "and ours");
    is_text(env_get(&e, "PATH"), "/x", "what was there is replaced");
    is_text(env_get(&e, "PYTHONPATH"), "/mine:/pkg", "the package is last on the path");
    is_text(env_get(&e, "PYTHONUNBUFFERED"), "1", "what is for the user's processes stays");
    ok(env_set_json(&e, slice_text("{\"A=B\": \"1\"}"), &err) < 0 && err.text[0],
       "a name with = is refused: %s", err.text);
    ok(env_set_json(&e, slice_text("[1]"), NULL) < 0 && env_set_json(&e, slice_text("{"), NULL) < 0,
       "and what is no object");
    env_release(&e);
}

int main(void)
{
    causes_are_named();
    causes_before_it_was_ready();
    counters_are_read();
    connections_are_matched();
    environments_are_made();
    return plan_done();
}
