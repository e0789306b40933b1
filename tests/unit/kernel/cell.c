/* The way of a cell, with doubles of all doors: what is sent to whom, in which order, and what the client gets. */
#include <stdlib.h>

#include "base/random.h"
#include "kernel/cell/room.h"
#include "kernel/jupyter/request.h"
#include "tests/unit/tap.h"

/* ---- the doubles: everything that leaves is written down as one line ---- */

struct world {
    struct notebook *nb;
    struct jupyter_session session;
    struct buf log, sent;
    uint64_t now, due, blob;
    bool ended;
};

static uint64_t set_clock(void *arg) { return ((struct world *)arg)->now; }

static void note(struct world *w, const char *text)
{
    if (buf_addf(&w->log, "%s\n", text) < 0)
        abort();
}

static void out_publish(void *arg, const struct request *parent, const char *type, const struct parcel *p)
{
    struct world *w = arg;

    (void)parent;
    if (buf_addf(&w->log, "publish %s %.*s\n", type, SLICE_ARG(p->content)) < 0)
        abort();
}

static void out_reply(void *arg, struct request *r, const char *type, const struct parcel *p)
{
    struct world *w = arg;

    (void)r;
    if (buf_addf(&w->log, "reply %s %.*s\n", type, SLICE_ARG(p->content)) < 0)
        abort();
}

static void out_status(void *arg, const struct request *r, const char *state)
{
    (void)r;
    note(arg, state);
}

static void out_ask(void *arg, const struct request *r, struct slice prompt, bool password)
{
    struct world *w = arg;

    (void)r, (void)password;
    if (buf_addf(&w->log, "ask %.*s\n", SLICE_ARG(prompt)) < 0)
        abort();
}

static int out_send(void *arg, const uint32_t *workers, size_t n, const struct span *m, struct err *err)
{
    struct world *w = arg;
    struct buf who = BUF_INIT;
    int rc = 0;

    for (size_t k = 0; k < n; k++)
        rc |= buf_addf(&who, " %u", workers[k]);
    if (m->kind == SPAN_PACK)
        w->blob = m->blob;
    rc |= buf_addf(&w->log, "send %s%s\n", span_info(m->kind)->name, who.n ? who.p : "");
    buf_release(&who);
    if (rc < 0)
        abort();
    buf_clear(&w->sent);
    return span_encode(m, &w->sent, err);
}

static void out_nothing(void *arg) { (void)arg; }
static void out_shutdown(void *arg) { ((struct world *)arg)->ended = true; }
static void out_owe(void *arg, uint32_t worker, size_t bytes) { (void)arg, (void)worker, (void)bytes; }
static void out_forget(void *arg, uint32_t worker) { (void)arg, (void)worker; }
static int out_revive(void *arg, struct err *err) { (void)err; note(arg, "revive"); return 0; }
static void out_wake(void *arg, uint64_t due) { ((struct world *)arg)->due = due; }
static const char *in_node(void *arg) { (void)arg; return "here"; }
static long in_cores(void *arg) { (void)arg; return 8; }
static unsigned in_gpus(void *arg) { (void)arg; return 0; }
static uint64_t in_memory(void *arg, long pid) { (void)arg, (void)pid; return 0; }

static void world_open(struct world *w, struct clock *clock)
{
    const struct doors doors = {
        .arg = w, .clock = clock, .publish = out_publish, .reply = out_reply, .status = out_status, .ask = out_ask,
        .drain_shell = out_nothing, .shutdown = out_shutdown, .send = out_send, .owe = out_owe, .forget = out_forget,
        .revive = out_revive, .wake = out_wake, .node = in_node, .cores = in_cores, .gpus = in_gpus, .memory = in_memory,
    };
    const struct notebook_config config = { .python = "python3", .python_version = "3.11.7", .run_id = "run" };
    struct err err = { "" };

    *w = (struct world){ .now = NS_PER_S };
    *clock = (struct clock){ set_clock, w };
    if (jupyter_session_init(&w->session, "test", "test", slice_text(""), &err) < 0 ||
        !(w->nb = notebook_create(&doors, &config, &err)))
        abort();
}

static void world_close(struct world *w)
{
    notebook_destroy(w->nb);
    jupyter_session_release(&w->session);
    buf_release(&w->log);
    buf_release(&w->sent);
}

/* ---- what comes in ---- */

static void ask(struct world *w, const char *type, const char *content)
{
    static unsigned number;
    char header[256];
    const char *const text[] = { "client", "<IDS|MSG>", "", header, "{}", "{}", content };
    zmq_msg_t part[7];
    struct request *r = NULL;

    snprintf(header, sizeof header, "{\"msg_id\":\"%u\",\"msg_type\":\"%s\",\"session\":\"s\",\"version\":\"5.4\"}", number++, type);
    for (size_t k = 0; k < 7; k++) {
        zmq_msg_init_size(&part[k], strlen(text[k]));
        memcpy(zmq_msg_data(&part[k]), text[k], strlen(text[k]));
    }
    if (request_create(CHANNEL_SHELL, part, 7, &w->session, &r) != JUPYTER_FINE)
        abort();
    notebook_request(w->nb, r);
    request_unref(r);
    for (size_t k = 0; k < 7; k++)
        zmq_msg_close(&part[k]);
}

static void run(struct world *w, const char *code)
{
    json_t *content = json_pack("{s:s}", "code", code);
    char *text = json_dumps(content, 0);

    ask(w, "execute_request", text);
    free(text);
    json_decref(content);
}

static void say(struct world *w, uint32_t worker, struct span m)
{
    m.worker = worker;
    notebook_message(w->nb, worker, &m);
}

static bool logged(struct world *w, const char *text)
{
    const bool found = w->log.p && strstr(w->log.p, text);

    if (!found)
        diag("no \"%s\" in: %s", text, w->log.p ? w->log.p : "");
    return found;
}

static bool in_order(struct world *w, const char *first, const char *second)
{
    const char *a = w->log.p ? strstr(w->log.p, first) : NULL;

    return a && strstr(a + 1, second);
}

static void captured(struct world *w, const char *names)
{
    struct span m = { .kind = SPAN_CAPTURED, .cell = w->nb->cell ? w->nb->cell->id : 0 };

    m.v[F_CAPTURED_NAMES].s = slice_text(names);
    m.v[F_CAPTURED_WARNINGS].s = slice_text("");
    say(w, SPAN_WORKER_HOME, m);
}

static void port(struct world *w)
{
    say(w, SPAN_WORKER_NONE, (struct span){ .kind = SPAN_PORT, .cell = w->nb->cell->id, .v[F_PORT_PORT].u64 = 20123 });
}

static void ready(struct world *w, uint32_t worker)
{
    struct span m = { .kind = SPAN_READY, .v[F_READY_PID].u64 = 1000 + worker };

    m.v[F_READY_PYTHON].s = slice_text("3.11.7");
    m.v[F_READY_INFO].s = slice_text("{}");
    say(w, worker, m);
}

static void done(struct world *w, uint32_t worker, const char *status, const char *content, const char *result)
{
    struct span m = { .kind = SPAN_DONE, .cell = w->nb->cell ? w->nb->cell->id : 0 };

    m.v[F_DONE_STATUS].s = slice_text(status);
    m.v[F_DONE_CONTENT].s = slice_text(content);
    m.v[F_DONE_RESULT].s = slice_text(result);
    m.v[F_DONE_NOTE].s = slice_text("");
    say(w, worker, m);
}

static void exited(struct world *w, uint32_t worker, uint64_t code, uint64_t status)
{
    struct span m = { .kind = SPAN_EXITED };

    m.v[F_EXITED_PID].u64 = 1000 + worker;
    m.v[F_EXITED_CODE].u64 = code;
    m.v[F_EXITED_STATUS].u64 = status;
    m.v[F_EXITED_CAUSE].s = m.v[F_EXITED_STACK].s = slice_text("");
    m.v[F_EXITED_STDERR].s = slice_text("last words\n");
    say(w, worker, m);
}

static void pass(struct world *w, uint64_t ns)
{
    w->now += ns;
    notebook_tick(w->nb);
}

/* Two ranks, workers 2 and 3, in the midst of a cell. */
static void begin_two(struct world *w)
{
    run(w, "%%distribute -n 2\nprint(1)");
    captured(w, "{\"names\": []}");
    port(w);
    ready(w, 2);
    ready(w, 3);
}

/* ---- what is proven ---- */

static void home_cells(void)
{
    struct clock clock;
    struct world w;
    struct span reply = { .kind = SPAN_REPLY, .cell = 1 };

    world_open(&w, &clock);
    run(&w, "1+1");
    run(&w, "2+2");
    ok(in_order(&w, "busy", "publish execute_input") && in_order(&w, "execute_input", "send REQUEST 1"), "a cell goes home");
    ok(!in_order(&w, "send REQUEST", "send REQUEST"), "and the next waits for it");
    reply.v[F_REPLY_STATUS].s = slice_text("ok");
    reply.v[F_REPLY_CONTENT].s = slice_text("{\"status\":\"ok\"}");
    reply.v[F_REPLY_METADATA].s = slice_text("{}");
    say(&w, SPAN_WORKER_HOME, reply);
    ok(in_order(&w, "reply execute_reply {\"status\":\"ok\"}", "idle"), "its reply is passed on, then idle");
    ok(in_order(&w, "idle", "send REQUEST 1"), "then the next begins");
    run(&w, "3+3");
    reply.cell = 2;
    reply.v[F_REPLY_STATUS].s = slice_text("error");
    say(&w, SPAN_WORKER_HOME, reply);
    ok(logged(&w, "reply execute_reply {\"status\":\"aborted\"}"), "an error aborts what waits");
    world_close(&w);
}

static void home_dies(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, "crash()");
    exited(&w, SPAN_WORKER_HOME, 1, 11);
    ok(logged(&w, "killed by signal 11 (SIGSEGV)"), "the error names the signal");
    ok(logged(&w, "\"ename\":\"HomeDied\"") && logged(&w, "last words"), "and shows the last words");
    ok(logged(&w, "send START 1"), "a new home starts");
    ok(in_order(&w, "reply execute_reply", "idle") && !w.nb->executing, "and the cell is over");
    world_close(&w);
}

static void a_cell_on_ranks(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute -n 2\nprint(x)");
    ok(logged(&w, "send START 2 3") && logged(&w, "send CAPTURE 1") && logged(&w, "send PORT"), "ranks, names and a port are asked for at once");
    captured(&w, "{\"names\": [[\"x\", 1, 8, \"\"]]}");
    port(&w);
    ready(&w, 2);
    ok(!strstr(w.log.p, "send PACK"), "nothing is packed before the last rank is there");
    ready(&w, 3);
    ok(logged(&w, "send PACK 1"), "then home packs what they lack");
    say(&w, SPAN_WORKER_HOME, (struct span){ .kind = SPAN_PACKED, .cell = w.nb->cell->id, .blob = w.blob, .blob_size = 100,
                                             .v[F_PACKED_ERROR].s = { "", 0 } });
    ok(in_order(&w, "send BIND 2 3", "send RUN 2") && in_order(&w, "send RUN 2", "send RUN 3"), "both get it, then the cell");
    done(&w, 3, "ok", "", "");
    ok(!strstr(w.log.p, "execute_reply"), "one rank alone does not end it");
    done(&w, 2, "ok", "", "{\"data\":{\"text/plain\":\"7\"},\"metadata\":{}}");
    ok(in_order(&w, "publish execute_result {\"execution_count\":1,\"data\":{\"text/plain\":\"7\"}", "reply execute_reply"),
       "rank 0's result is the cell's");
    buf_clear(&w.log);
    run(&w, "%%distribute\nprint(x)");
    captured(&w, "{\"names\": [[\"x\", 1, 8, \"\"]]}");
    port(&w);
    ok(!strstr(w.log.p, "START") && !strstr(w.log.p, "PACK") && logged(&w, "send RUN 2"), "the next cell costs no start and no shipping");
    world_close(&w);
}

static void usage_errors(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute -n 0\npass");
    ok(logged(&w, "\"ename\":\"UsageError\"") && !strstr(w.log.p, "START"), "a usage error starts nothing");
    run(&w, "%pull x");
    ok(logged(&w, "there are no ranks yet"), "nothing can be pulled from nobody");
    run(&w, "%%distribute -n gpu\npass");
    ok(logged(&w, "there is no GPU on here"), "-n gpu needs one");
    world_close(&w);
}

static void failures(void)
{
    static const char *const error = "{\"ename\":\"ZeroDivisionError\",\"evalue\":\"division by zero\",\"traceback\":[\"line\"]}";
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    done(&w, 2, "error", error, "");
    ok(!strstr(w.log.p, "publish error"), "after the first failure others may fail alike for a moment");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "ZeroDivisionError") && logged(&w, "on rank 0 of 2"), "then the error is shown, with its rank");
    ok(in_order(&w, "publish error", "send INTERRUPT 3"), "and who still runs is interrupted");
    pass(&w, 400 * NS_PER_MS);
    ok(logged(&w, "send SEVER 2 3"), "then cut from the others");
    pass(&w, 11 * NS_PER_S);
    ok(logged(&w, "send STACKS 3"), "then asked where it hangs");
    pass(&w, NS_PER_S);
    ok(logged(&w, "send KILL 3"), "then killed");
    exited(&w, 3, 1, 9);
    ok(in_order(&w, "rank 1 was killed: its variables are gone", "reply execute_reply") && !w.nb->cell, "and the cell is over");
    world_close(&w);
}

static void deaths(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    exited(&w, 3, 1, 9);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "rank 1 was killed by signal 9 (SIGKILL) (host here, pid 1003)"), "a death has its certificate");
    done(&w, 2, "error", "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}", "");
    ok(logged(&w, "\"ename\":\"RankDied\"") && !w.nb->cell, "the survivor's interrupt is no second error");
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    ok(logged(&w, "send START 4") && !strstr(w.log.p, "START 4 5"), "the next cell starts the missing rank alone");
    captured(&w, "{\"names\": []}");
    port(&w);
    ready(&w, 4);
    done(&w, 2, "ok", "", "");
    done(&w, 4, "ok", "", "");
    ok(logged(&w, "rank 1 is new: its variables are gone"), "and says that its variables are gone");
    world_close(&w);
}

static void interrupts(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    notebook_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 2 3"), "an interrupt reaches every rank");
    notebook_interrupt(w.nb);
    ok(logged(&w, "send KILL 2 3"), "a second one kills them");
    exited(&w, 2, 1, 9);
    exited(&w, 3, 1, 9);
    ok(logged(&w, "reply execute_reply") && !w.nb->cell, "and the cell ends");
    world_close(&w);
}

static void lost_agents(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    notebook_lost(w.nb, "the agent was killed");
    ok(logged(&w, "revive") && logged(&w, "the agent was killed"), "an agent that is lost ends the cell and is started again");
    pass(&w, 300 * NS_PER_MS);
    ok(!w.nb->cell && w.nb->group->rank[0].state == RANK_DEAD, "its ranks are dead");
    world_close(&w);
}

static void questions(void)
{
    struct clock clock;
    struct world w;
    struct span input = { .kind = SPAN_INPUT };

    world_open(&w, &clock);
    begin_two(&w);
    input.v[F_INPUT_PROMPT].s = slice_text("name? ");
    say(&w, 2, input);
    ok(logged(&w, "ask name? "), "a rank asks");
    ask(&w, "input_reply", "{\"value\":\"Ada\"}");
    ok(logged(&w, "send INPUT_REPLY 2"), "and gets the answer");
    ask(&w, "input_reply", "{\"value\":\"again\"}");
    ok(!in_order(&w, "INPUT_REPLY 2", "INPUT_REPLY"), "once");
    ask(&w, "kernel_info_request", "{}");
    ok(logged(&w, "reply kernel_info_reply"), "meanwhile the kernel says who it is");
    ask(&w, "shutdown_request", "{\"restart\":false}");
    ok(w.ended && logged(&w, "publish shutdown_reply"), "and ends when asked");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    home_cells();
    home_dies();
    a_cell_on_ranks();
    usage_errors();
    failures();
    deaths();
    interrupts();
    lost_agents();
    questions();
    return plan_done();
}
