/* SPDX-License-Identifier: BSD-3-Clause */
/* The debugger's front: many workers' debuggers, which clients see as one. */
#include "kernel/debug/debug.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/murmur2.h"
#include "tests/unit/tap.h"

#define HOME   1u
#define RANK0  7u
#define RANK1  8u
#define OWN    (1 << 24)
#define SECOND ((uint64_t)1000000000)

/* What the front has sent, published and answered last. */
struct world {
    struct debug *d;
    json_t *sent[64], *events[64], *replies[16];
    uint32_t to[64];
    size_t n_sent, n_events, n_replies, begun;
    char note[128];
};

static int on_send(void *arg, uint32_t worker, const json_t *message)
{
    struct world *w = arg;

    w->to[w->n_sent] = worker;
    w->sent[w->n_sent++] = json_deep_copy(message);
    return 0;
}

static void on_event(void *arg, json_t *event)
{
    struct world *w = arg;

    w->events[w->n_events++] = event;
}

static void on_begin(void *arg, void *request)
{
    (void)request;
    ((struct world *)arg)->begun++;
}

static void on_reply(void *arg, void *request, json_t *content)
{
    struct world *w = arg;

    (void)request;
    w->replies[w->n_replies++] = content;
}

static void on_note(void *arg, const char *text)
{
    snprintf(((struct world *)arg)->note, sizeof((struct world *)arg)->note, "%s", text);
}

static void world_open(struct world *w)
{
    const struct debug_ops ops = { w, on_send, on_event, on_begin, on_reply, on_note };

    memset(w, 0, sizeof *w);
    if (!(w->d = debug_create(&ops, "/tmp/x/")))
        abort();
    debug_join(w->d, HOME, DEBUG_HOME);
}

static void drop(json_t **list, size_t *n)
{
    while (*n)
        json_decref(list[--*n]);
}

static void world_clear(struct world *w)
{
    drop(w->sent, &w->n_sent);
    drop(w->events, &w->n_events);
    drop(w->replies, &w->n_replies);
    w->begun = 0;
}

static void world_close(struct world *w)
{
    debug_destroy(w->d);
    world_clear(w);
}

static void ask(struct world *w, const char *command, json_t *arguments)
{
    json_t *content = json_pack("{s:s, s:i, s:s, s:o}", "type", "request", "seq", 42, "command",
                                command, "arguments", arguments);

    debug_request(w->d, w, content, 0);
    json_decref(content);
}

/* The worker answers to the last message that it got. */
static void answer(struct world *w, uint32_t worker, json_t *body)
{
    size_t k = w->n_sent;

    while (k > 0 && w->to[k - 1] != worker)
        k--;
    if (k == 0)
        abort();
    debug_message(w->d, worker,
                  json_pack("{s:s, s:i, s:O, s:O, s:b, s:o}", "type", "response", "seq", 1,
                            "request_seq", json_object_get(w->sent[k - 1], "seq"), "command",
                            json_object_get(w->sent[k - 1], "command"), "success", 1, "body",
                            body ? body : json_object()),
                  0);
}

static void event(struct world *w, uint32_t worker, const char *name, int thread, uint64_t now)
{
    debug_message(w->d, worker,
                  json_pack("{s:s, s:s, s:{s:i, s:b}}", "type", "event", "event", name, "body",
                            "threadId", thread, "allThreadsStopped", 1),
                  now);
}

static json_int_t number(const json_t *value, const char *a, const char *b)
{
    return json_integer_value(json_object_get(json_object_get(value, a), b));
}

static bool is(const json_t *value, const char *name, const char *text)
{
    const char *have = json_string_value(json_object_get(value, name));

    return have && strcmp(have, text) == 0;
}

static json_t *last(json_t *const *list, size_t n)
{
    return n ? list[n - 1] : NULL;
}

/* A client has attached to home and two ranks. */
static void attach(struct world *w)
{
    ask(w, "initialize", json_object());
    answer(w, HOME, NULL);
    debug_join(w->d, RANK0, 0);
    debug_join(w->d, RANK1, 1);
    ask(w, "attach", json_object());
    answer(w, RANK0, json_pack("{s:i}", "mainThread", 1));
    answer(w, RANK1, json_pack("{s:i}", "mainThread", 1));
    answer(w, HOME, json_pack("{s:i}", "mainThread", 1));
    world_clear(w);
}

static void before(void)
{
    struct world w;

    world_open(&w);
    ask(&w, "stackTrace", json_object());
    ok(w.n_replies == 1 && json_object_size(w.replies[0]) == 0 && w.n_sent == 0,
       "before a client has begun, the answer is {}");
    ask(&w, "initialize", json_object());
    ask(&w, "debugInfo", json_object());
    ok(w.n_sent == 1 && w.n_replies == 1 && w.begun == 2, "requests wait for those before them");
    answer(&w, HOME, NULL);
    ok(w.n_replies == 3 && json_integer_value(json_object_get(w.replies[1], "request_seq")) == 42 &&
           json_is_true(json_object_get(json_object_get(w.replies[2], "body"), "isStarted")),
       "then each is answered, with the client's number");
    world_close(&w);
}

static void join(void)
{
    struct world w;
    const json_t *one;

    world_open(&w);
    attach(&w);
    ask(&w, "setBreakpoints",
        json_pack("{s:{s:s}, s:[{s:i}]}", "source", "path", "/tmp/x/1.py", "breakpoints", "line",
                  3));
    ok(w.n_sent == 3, "breakpoints go to home and all ranks");
    answer(&w, HOME, json_pack("{s:[{s:b, s:i}]}", "breakpoints", "verified", 0, "line", 3));
    answer(&w, RANK0, json_pack("{s:[{s:b, s:i}]}", "breakpoints", "verified", 0, "line", 3));
    ok(w.n_replies == 0, "and the client's answer waits for all");
    answer(&w, RANK1, json_pack("{s:[{s:b, s:i}]}", "breakpoints", "verified", 1, "line", 4));
    one = json_array_get(json_object_get(json_object_get(last(w.replies, w.n_replies), "body"),
                                         "breakpoints"),
                         0);
    ok(json_is_true(json_object_get(one, "verified")), "one that is set anywhere is set");
    world_clear(&w);
    debug_join(w.d, 9, 2);
    one = json_object_get(json_object_get(last(w.sent, w.n_sent), "arguments"), "cellspan");
    ok(w.n_sent == 1 && is(w.sent[0], "command", "attach") &&
           json_array_size(json_object_get(one, "requests")) == 1,
       "a rank that comes later gets the breakpoints too");
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t all[] = { HOME, RANK0, RANK1 };

        if (k == 0)
            ask(&w, "setBreakpoints",
                json_pack("{s:{s:s}, s:[]}", "source", "path", "/tmp/x/1.py", "breakpoints"));
        else
            answer(&w, all[k - 1], json_pack("{s:[]}", "breakpoints"));
    }
    debug_join(w.d, 10, 3);
    one = json_object_get(json_object_get(last(w.sent, w.n_sent), "arguments"), "cellspan");
    ok(json_array_size(json_object_get(one, "requests")) == 0, "but none of those that are gone");
    world_close(&w);
}

static void ids(void)
{
    struct world w;

    world_open(&w);
    attach(&w);
    event(&w, RANK1, "stopped", 1, 0);
    ok(number(w.events[0], "body", "threadId") == 2 * OWN + 1 &&
           json_is_false(
               json_object_get(json_object_get(w.events[0], "body"), "allThreadsStopped")),
       "a rank's thread has a number of its own, and it alone has stopped");
    ask(&w, "stackTrace", json_pack("{s:i}", "threadId", 2 * OWN + 1));
    ok(w.n_sent == 1 && w.to[0] == RANK1 && number(w.sent[0], "arguments", "threadId") == 1,
       "the number leads to the rank, which gets its own");
    answer(&w, RANK1,
           json_pack("{s:[{s:i, s:{s:i}}]}", "stackFrames", "id", 5, "source", "sourceReference",
                     6));
    ask(&w, "scopes", json_pack("{s:i}", "frameId", 2 * OWN + 5));
    ok(w.to[1] == RANK1 && number(w.sent[1], "arguments", "frameId") == 5, "so do frames");
    answer(&w, RANK1, json_pack("{s:[{s:i}]}", "scopes", "variablesReference", 9));
    ok(json_integer_value(json_object_get(
           json_array_get(json_object_get(json_object_get(w.replies[1], "body"), "scopes"), 0),
           "variablesReference")) == 2 * OWN + 9,
       "and variables");
    ask(&w, "stackTrace", json_pack("{s:i}", "threadId", 1));
    ok(w.to[2] == HOME, "thread 1 is home's");
    world_close(&w);
}

static void order(void)
{
    struct world w;
    json_t *stopped;

    world_open(&w);
    attach(&w);
    event(&w, RANK1, "stopped", 1, 0);
    event(&w, RANK0, "stopped", 1, SECOND);
    ok(debug_due(w.d) != UINT64_MAX && w.n_events == 2, "two ranks stop");
    debug_tick(w.d, debug_due(w.d));
    ok(w.n_events == 3 && number(w.events[2], "body", "threadId") == 2 * OWN + 1,
       "clients are told again of the one that stopped first");
    ask(&w, "debugInfo", json_object());
    stopped = json_object_get(json_object_get(w.replies[0], "body"), "stoppedThreads");
    ok(json_integer_value(json_array_get(stopped, 0)) == 2 * OWN + 1, "which is first in the list");
    ok(debug_choose(w.d, 0) == 0 && debug_choose(w.d, 5) == -1, "another one can be chosen");
    debug_tick(w.d, 2 * SECOND);
    ok(number(w.events[3], "body", "threadId") == OWN + 1, "and clients are told");
    ask(&w, "continue", json_pack("{s:i}", "threadId", 1));
    ok(w.to[w.n_sent - 1] == RANK0 && number(w.sent[w.n_sent - 1], "arguments", "threadId") == 1,
       "continue of a thread that runs is for the one that clients see");
    answer(&w, RANK0, NULL);
    event(&w, RANK0, "continued", 1, 3 * SECOND);
    debug_tick(w.d, debug_due(w.d));
    ok(w.n_events == 6 && number(w.events[5], "body", "threadId") == 2 * OWN + 1,
       "when it goes on, the next one is first");
    debug_gone(w.d, RANK1, 4 * SECOND);
    ok(!debug_is_stopped(w.d) && is(w.events[6], "event", "continued") &&
           is(json_object_get(w.events[7], "body"), "reason", "exited"),
       "a rank that dies is a thread that ends");
    world_close(&w);
}

static void all_go_on(void)
{
    struct world w;

    world_open(&w);
    attach(&w);
    world_clear(&w);
    ok(debug_continue(w.d) == 0 && w.n_sent == 0, "nobody stands: nobody is told to go on");
    event(&w, HOME, "stopped", 1, 0);
    event(&w, RANK1, "stopped", 1, 0);
    ok(debug_continue(w.d) == 2 && w.n_sent == 2, "all that stand are told to go on");
    ok(w.to[0] == HOME && w.to[1] == RANK1 && is(w.sent[1], "command", "continue") &&
           is(json_object_get(w.sent[1], "arguments"), "threadId", "*"),
       "home too, with all their threads; breakpoints stay");
    answer(&w, HOME, NULL);
    answer(&w, RANK1, NULL);
    ok(w.n_replies == 0, "no client gets the answers");
    event(&w, HOME, "continued", 1, 0);
    event(&w, RANK1, "continued", 1, 0);
    ok(!debug_is_stopped(w.d) && w.n_events == 4, "clients are told that they have gone on");
    world_close(&w);
}

static void silence(void)
{
    struct world w;

    world_open(&w);
    attach(&w);
    ask(&w, "threads", json_object());
    answer(&w, HOME, json_pack("{s:[{s:i, s:s}]}", "threads", "id", 1, "name", "MainThread"));
    answer(&w, RANK0,
           json_pack("{s:[{s:i, s:s}, {s:i, s:s}]}", "threads", "id", 1, "name", "MainThread", "id",
                     2, "name", "T"));
    debug_tick(w.d, 4 * SECOND);
    ok(w.n_replies == 0, "a rank does not answer");
    debug_tick(w.d, 5 * SECOND);
    ok(strcmp(w.note, "rank 1 does not answer the debugger") == 0, "%s", w.note);
    ok(w.n_replies == 1 && json_is_true(json_object_get(w.replies[0], "success")),
       "after 5 s the others' answers are the client's");
    {
        const json_t *rows = json_object_get(json_object_get(w.replies[0], "body"), "threads");

        ok(json_array_size(rows) == 3 && is(json_array_get(rows, 1), "name", "rank 0") &&
               is(json_array_get(rows, 2), "name", "rank 0: T"),
           "threads of ranks have their rank's name");
    }
    w.note[0] = '\0';
    ask(&w, "threads", json_object());
    ok(w.n_sent == 6 && w.to[5] == RANK1, "a rank that was silent is asked again");
    answer(&w, HOME, json_object());
    answer(&w, RANK0, json_object());
    ok(w.n_replies == 2 && !w.note[0], "but nobody waits for it, or names it again");
    answer(&w, RANK1, json_object());
    ask(&w, "threads", json_object());
    answer(&w, HOME, json_object());
    answer(&w, RANK0, json_object());
    ok(w.n_replies == 2, "once it answers, it is waited for as before");
    debug_gone(w.d, RANK1, 0);
    ok(w.n_replies == 3, "nobody waits for a rank that has died");
    world_close(&w);
}

/* The first rank has an `attach` that it has not answered. */
static void late(void)
{
    struct world w;
    json_t *attach_0;

    world_open(&w);
    ask(&w, "initialize", json_object());
    answer(&w, HOME, NULL);
    debug_join(w.d, RANK0, 0);
    ask(&w, "attach", json_object());
    answer(&w, HOME, json_pack("{s:i}", "mainThread", 1));
    attach_0 = json_incref(w.sent[2]);
    debug_tick(w.d, 5 * SECOND);
    ok(w.n_replies == 2 && w.to[2] == RANK0, "a rank is slow to attach");
    world_clear(&w);
    debug_release(w.d);
    ok(w.n_sent == 1 && w.to[0] == RANK0 && is(w.sent[0], "command", "release"),
       "an interrupt is for it too: it may stand soon");
    world_clear(&w);
    ask(&w, "setBreakpoints",
        json_pack("{s:{s:s}, s:[{s:i}]}", "source", "path", "/tmp/x/1.py", "breakpoints", "line",
                  3));
    ok(w.n_sent == 2 && w.to[1] == RANK0, "breakpoints that are set meanwhile reach it");
    answer(&w, HOME, json_pack("{s:[{s:b, s:i}]}", "breakpoints", "verified", 1, "line", 3));
    ok(w.n_replies == 1, "but nobody waits for it");
    debug_message(w.d, RANK0,
                  json_pack("{s:s, s:O, s:b, s:{s:i}}", "type", "response", "request_seq",
                            json_object_get(attach_0, "seq"), "success", 1, "body", "mainThread",
                            1),
                  6 * SECOND);
    ask(&w, "threads", json_object());
    ok(w.n_sent == 4 && w.to[3] == RANK0, "its late answer counts");
    json_decref(attach_0);
    world_close(&w);
    world_open(&w);
    attach(&w);
    debug_join(w.d, 9, 2);
    world_clear(&w);
    ask(&w, "disconnect", json_object());
    ok(w.n_sent == 4 && is(w.sent[3], "command", "disconnect"),
       "a rank that is still attaching gets disconnect too");
    world_close(&w);
}

static void refused(void)
{
    struct world w;

    world_open(&w);
    attach(&w);
    debug_join(w.d, 9, 2);
    debug_message(w.d, 9,
                  json_pack("{s:s, s:O, s:b, s:s}", "type", "response", "request_seq",
                            json_object_get(last(w.sent, w.n_sent), "seq"), "success", 0, "message",
                            "No module named 'debugpy'"),
                  0);
    ok(strcmp(w.note, "rank 2 is not debugged: No module named 'debugpy'") == 0, "%s", w.note);
    world_close(&w);
}

static void home_first(void)
{
    struct world w;
    const json_t *body;

    world_open(&w);
    attach(&w);
    ask(&w, "setBreakpoints",
        json_pack("{s:{s:s}, s:[{s:i}]}", "source", "path", "/tmp/x/1.py", "breakpoints", "line",
                  3));
    answer(&w, RANK1, json_pack("{s:[{s:i, s:b}]}", "breakpoints", "id", 7, "verified", 1));
    answer(&w, HOME, json_pack("{s:[{s:i, s:b}]}", "breakpoints", "id", 1, "verified", 1));
    answer(&w, RANK0, json_pack("{s:[{s:i, s:b}]}", "breakpoints", "id", 8, "verified", 1));
    body = json_object_get(last(w.replies, w.n_replies), "body");
    ok(json_integer_value(
           json_object_get(json_array_get(json_object_get(body, "breakpoints"), 0), "id")) == 1,
       "clients get home's numbers of breakpoints, whoever answers first");
    world_close(&w);
}

static void ends(void)
{
    struct world w;

    world_open(&w);
    attach(&w);
    event(&w, RANK0, "stopped", 1, 0);
    ask(&w, "disconnect", json_object());
    ok(w.n_sent == 3 && is(w.sent[0], "command", "disconnect"), "disconnect goes to all");
    answer(&w, HOME, NULL);
    answer(&w, RANK0, NULL);
    answer(&w, RANK1, NULL);
    ok(!debug_is_attached(w.d) && !debug_is_stopped(w.d), "then nothing stands");
    attach(&w);
    event(&w, RANK0, "stopped", 1, 0);
    ask(&w, "initialize", json_object());
    ok(is(w.sent[0], "command", "release"), "a second client lets all go on");
    ok(strncmp(w.note, "the debugger was switched on again", 34) == 0, "and a line says so");
    debug_cell(w.d, RANK1, 3, slice_text("abc"));
    ok(is(last(w.sent, w.n_sent), "command", "cell") &&
           is(json_object_get(last(w.sent, w.n_sent), "arguments"), "path", "/tmp/x/3350977461.py"),
       "a cell's file name comes from its text");
    world_close(&w);
}

static json_int_t line_of(const json_t *list, const char *command)
{
    const json_t *rows = json_object_get(json_object_get(list, command), "breakpoints");

    return json_integer_value(json_object_get(json_array_get(rows, 0), "line"));
}

/* VS Code counts the lines of a cell from the first one that is not empty. */
static void lines(void)
{
    json_t *set = json_pack("{s:{s:s}, s:[{s:i}]}", "source", "path", "/tmp/x/3990065800.py",
                            "breakpoints", "line", 2);

    for (int vscode = 0; vscode < 2; vscode++) {
        const char *path;
        struct world w;

        world_open(&w);
        ask(&w, "initialize", json_pack("{s:s}", "clientID", vscode ? "vscode" : "other"));
        answer(&w, HOME, json_object());
        ask(&w, "attach", json_object());
        answer(&w, HOME, json_pack("{s:i}", "mainThread", 1));
        ask(&w, "dumpCell", json_pack("{s:s}", "code", "\n \na = 1\nb = 2"));
        path = json_string_value(
            json_object_get(json_object_get(last(w.replies, w.n_replies), "body"), "sourcePath"));
        json_object_set_new(json_object_get(set, "source"), "path", json_string(path));
        ask(&w, "setBreakpoints", json_deep_copy(set));
        ok(line_of(last(w.sent, w.n_sent), "arguments") == (vscode ? 4 : 2),
           "a line goes to the worker as the cell has it");
        answer(&w, HOME, json_pack("{s:[{s:b, s:i}]}", "breakpoints", "verified", 1, "line", 4));
        ok(line_of(last(w.replies, w.n_replies), "body") == (vscode ? 2 : 4),
           "and to the client as it counts");
        world_close(&w);
    }
    json_decref(set);
}

static void hash(void)
{
    /* the figures are ipykernel's */
    ok(murmur2(slice_text(""), MURMUR2_SEED) == 3990065800u, "an empty text");
    ok(murmur2(slice_text("a = 1"), MURMUR2_SEED) == 3780943274u, "five bytes");
}

int main(void)
{
    before();
    join();
    ids();
    order();
    all_go_on();
    silence();
    late();
    refused();
    home_first();
    ends();
    lines();
    hash();
    return plan_done();
}
