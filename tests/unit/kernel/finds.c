/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks ask home about the notebook's code. */
#include <stdlib.h>

#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

static void asks(struct world *w, uint32_t worker, const char *question)
{
    struct span m = { .kind = SPAN_FIND };

    m.v[F_FIND_WHAT].s = slice_text("tree");
    m.v[F_FIND_QUESTION].s = slice_text(question);
    say(w, worker, m);
}

static void home_answers(struct world *w, const char *question, const char *content, uint64_t blob,
                         uint64_t size)
{
    struct span m = { .kind = SPAN_FOUND, .blob = blob, .blob_size = size };

    m.v[F_FOUND_WHAT].s = slice_text("tree");
    m.v[F_FOUND_QUESTION].s = slice_text(question);
    m.v[F_FOUND_CONTENT].s = slice_text(content);
    buf_clear(&w->log);
    say(w, SPAN_WORKER_HOME, m);
}

static void equal_questions_are_asked_once(void)
{
    struct clock clock;
    struct world w;
    uint64_t blob;

    open_two(&w, &clock);
    asks(&w, 2, "{\"name\":\"a\"}");
    blob = w.last.blob;
    ok(logged(&w, "send FIND 1") && sent(&w, "{\"name\":\"a\"}") && blob,
       "a rank's question goes to home, with a number for the answer's blob");
    asks(&w, 4, "{\"name\":\"a\"}");
    asks(&w, 4, "{\"name\":\"a\"}");
    ok(times(&w, "FIND") == 1, "while home has not answered, an equal one does not");
    asks(&w, 3, "{\"name\":\"b\"}");
    ok(times(&w, "FIND") == 2 && w.last.blob != blob, "another one does, with another number");
    home_answers(&w, "{\"name\":\"a\"}", "{\"digest\":\"d\"}", blob, 5);
    ok(times(&w, "send FOUND 2 4") == 2 && !times(&w, "FOUND 3"),
       "the answer goes to those that have asked, as one message behind another that announces it");
    ok(sent(&w, "{\"digest\":\"d\"}") && sent(&w, "{\"name\":\"a\"}") && w.last.blob == blob,
       "it has the question and the blob");
    ok(in_order(&w, "send FOUND", "drop"), "the blob is dropped then");
    home_answers(&w, "{\"name\":\"b\"}", "{}", 0, 0);
    ok(times(&w, "send FOUND 3") == 1 && !times(&w, "drop"),
       "without a blob, nothing is announced");
    home_answers(&w, "{\"name\":\"b\"}", "{}", 77, 5);
    ok(!times(&w, "FOUND") && logged(&w, "drop 77"),
       "an answer that nobody waits for goes nowhere, and its blob is dropped");
    asks(&w, 2, "{\"name\":\"a\"}");
    ok(logged(&w, "send FIND 1"), "the next one is asked again");
    world_close(&w);
}

static void ranks_end(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    asks(&w, 2, "{}");
    asks(&w, 3, "{}");
    exited(&w, 2, EXITED_SIGNAL, 9);
    home_answers(&w, "{}", "{}", 0, 0);
    ok(logged(&w, "send FOUND 3") && !times(&w, "FOUND 2"), "a rank that has ended gets no answer");
    asks(&w, 3, "{}");
    exited(&w, 3, EXITED_SIGNAL, 9);
    asks(&w, 4, "{}");
    ok(times(&w, "FIND") == 1, "home goes on with what a rank has asked that has ended");
    home_answers(&w, "{}", "{}", 0, 0);
    ok(logged(&w, "send FOUND 4"), "and its answer is for the rank that asks the same");
    asks(&w, 4, "{}");
    world_close(&w); /* a question is open: nothing may leak */
}

static void home_ends(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    asks(&w, 2, "{}");
    asks(&w, 3, "{\"name\":\"b\"}");
    buf_clear(&w.log);
    exited(&w, SPAN_WORKER_HOME, EXITED_SIGNAL, 9);
    ok(logged(&w, "send FOUND 2") && logged(&w, "send FOUND 3") && sent(&w, "\"error\""),
       "if home ends, those that wait for its answer get an error");
    buf_clear(&w.log);
    asks(&w, 2, "{}");
    ok(logged(&w, "send FOUND 2") && !times(&w, "FIND") && sent(&w, "\"error\""),
       "and so do those that ask before the next home is ready");
    ready(&w, SPAN_WORKER_HOME);
    asks(&w, 2, "{}");
    ok(logged(&w, "send FIND 1"), "the next home is asked");
    world_close(&w);
}

static void answers_that_cannot_be_sent(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    asks(&w, 2, "{}");
    w.stuck = SPAN_FOUND;
    w.leave = 1; /* the announcement */
    home_answers(&w, "{}", "{}", 9, 5);
    ok(times(&w, "send FOUND 2") == 2 && sent(&w, "\"error\"") && w.last.blob == 0 &&
           logged(&w, "drop 9"),
       "a rank that was told to wait gets an error if the answer can't be sent");
    w.stuck = SPAN_FIND;
    w.leave = 0;
    asks(&w, 2, "{}");
    ok(logged(&w, "send FOUND 2") && sent(&w, "\"error\""), "and so if home can't be asked");
    world_close(&w);
}

static void sends_modules(struct world *w, const char *question, uint64_t size, uint64_t modules)
{
    struct span m = { .kind = SPAN_FOUND, .blob = 9, .blob_size = size };

    m.v[F_FOUND_WHAT].s = slice_text("tree");
    m.v[F_FOUND_QUESTION].s = slice_text(question);
    m.v[F_FOUND_CONTENT].s = slice_text("{}");
    m.v[F_FOUND_MODULES].u64 = modules;
    m.v[F_FOUND_FILES].u64 = modules + 1;
    say(w, SPAN_WORKER_HOME, m);
}

static void begins(struct world *w, const char *question)
{
    struct span m = { .kind = SPAN_FOUND };

    m.v[F_FOUND_WHAT].s = slice_text("tree");
    m.v[F_FOUND_QUESTION].s = slice_text(question);
    m.v[F_FOUND_MORE].u64 = 1;
    buf_clear(&w->log);
    say(w, SPAN_WORKER_HOME, m);
}

static void a_home_at_work_is_waited_for(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    asks(&w, 2, "{\"name\":\"a\"}");
    asks(&w, 3, "{\"name\":\"b\"}");
    begins(&w, "{\"name\":\"a\"}");
    ok(times(&w, "send FOUND 2") == 1 && times(&w, "send FOUND 3") == 1 && !times(&w, "drop"),
       "when home begins with a question, all that wait for home know");
    begins(&w, "{\"name\":\"b\"}");
    ok(!times(&w, "FOUND"), "once");
    asks(&w, 4, "{\"name\":\"a\"}");
    ok(times(&w, "send FOUND 4") == 1 && times(&w, "FOUND") == 1 && !sent(&w, "name"),
       "and those that ask the same later, which need not hear it");
    asks(&w, 5, "{\"name\":\"c\"}");
    ok(times(&w, "send FOUND 5") == 1, "or something else");
    home_answers(&w, "{\"name\":\"a\"}", "{}", 9, 5);
    ok(times(&w, "send FOUND 2 4") == 2 && logged(&w, "drop 9"),
       "an answer with a blob is announced, too: a blob may take longer");
    pass(&w, 5 * NS_PER_S);
    begins(&w, "");
    ok(times(&w, "send FOUND 3") == 1 && times(&w, "send FOUND 5") == 1,
       "what home says later moves the limit of all that wait");
    pass(&w, 15 * NS_PER_S);
    buf_clear(&w.log);
    asks(&w, 2, "{\"name\":\"d\"}");
    asks(&w, 2, "{\"name\":\"c\"}");
    ok(!times(&w, "FOUND"), "a home that has not said it for long does not count as at work");
    world_close(&w);
}

static void a_question_can_be_lost(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    asks(&w, 2, "{}");
    pass(&w, 9 * NS_PER_S);
    asks(&w, 2, "{}");
    asks(&w, 3, "{}");
    ok(times(&w, "FIND") == 1, "a rank that asks once more at once does not trouble home");
    pass(&w, NS_PER_S);
    asks(&w, 2, "{}");
    ok(times(&w, "FIND") == 2, "after 10 s home is asked once more");
    home_answers(&w, "{}", "{}", 0, 0);
    ok(times(&w, "send FOUND 2 3") == 1, "and answers all");
    world_close(&w);
}

static void ranks_may_not_ask_all(void)
{
    struct clock clock;
    struct world w;
    struct span m = { .kind = SPAN_FIND };

    open_two(&w, &clock);
    m.v[F_FIND_WHAT].s = slice_text("report");
    m.v[F_FIND_QUESTION].s = slice_text("{}");
    say(&w, 2, m);
    ok(!times(&w, "FIND") && times(&w, "send FOUND 2") == 1 && sent(&w, "\"error\""),
       "what is for people is not for ranks");
    for (unsigned k = 0; k < 8; k++) {
        const char name[] = { (char)('a' + k), '\0' };

        asks(&w, 2, name);
    }
    ok(times(&w, "FIND") == 8, "a rank may ask several things at once");
    asks(&w, 2, "more");
    ok(times(&w, "FIND") == 8 && times(&w, "send FOUND 2") == 2 && sent(&w, "\"error\""),
       "but not for ever");
    asks(&w, 3, "more");
    ok(times(&w, "FIND") == 9, "another rank may");
    world_close(&w);
}

static void with_and_never(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    w.nb->config.code = false;
    next(&w, "%%distribute --with a.csv\npass");
    ok(is_over(&w, "--with a.csv: CELLSPAN_CODE=never") && !times(&w, "send RUN"),
       "--with is refused where nothing may go");
    world_close(&w);
}

static void a_large_blob_is_kept(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock); /* workers 2 and 3 are on one machine, 4 and 5 on another */
    asks(&w, 2, "{}");
    buf_clear(&w.log);
    sends_modules(&w, "{}", 1 << 20, 1);
    ok(times(&w, "send FOUND 2") == 2 && !times(&w, "drop"),
       "a large blob is kept while another machine has not asked");
    buf_clear(&w.log);
    asks(&w, 3, "{}");
    ok(times(&w, "send FOUND 3") == 2 && w.last.blob == 9 && sent(&w, "{}") && !times(&w, "drop"),
       "whoever asks the same gets the same blob");
    asks(&w, 4, "{}");
    ok(times(&w, "send FOUND 4") == 2 && w.last.blob == 9 && logged(&w, "drop 9") &&
           !times(&w, "FIND"),
       "until all have asked; home is not asked again");
    asks(&w, 4, "{}");
    ok(logged(&w, "send FIND 1"), "the next time it is");
    sends_modules(&w, "{}", 1 << 20, 1);
    pass(&w, 29 * NS_PER_S);
    for (unsigned k = 0; k < 8; k++) {
        const char name[] = { (char)('a' + k), '\0' };

        asks(&w, 4, name);
    }
    ok(times(&w, "FIND") == 9, "what is answered does not count as asked");
    buf_clear(&w.log);
    asks(&w, 5, "{}");
    pass(&w, 29 * NS_PER_S);
    ok(times(&w, "send FOUND 5") == 2 && !times(&w, "drop"), "it is kept");
    pass(&w, NS_PER_S);
    ok(logged(&w, "drop 9"), "but not for ever");
    world_close(&w);
}

static void not_much_is_kept(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    asks(&w, 2, "a");
    asks(&w, 2, "b");
    asks(&w, 2, "{}");
    sends_modules(&w, "a", 128 << 20, 1);
    sends_modules(&w, "b", 128 << 20, 1);
    ok(!times(&w, "drop"), "answers are kept");
    buf_clear(&w.log);
    sends_modules(&w, "{}", 1 << 20, 1);
    ok(times(&w, "drop") == 1, "up to a number of bytes");
    asks(&w, 4, "b");
    ok(times(&w, "drop") == 2 && !times(&w, "FIND"), "the oldest go first");
    buf_clear(&w.log);
    exited(&w, SPAN_WORKER_HOME, EXITED_SIGNAL, 9);
    ok(!sent(&w, "\"error\"") && logged(&w, "drop 9"), "they end with home");
    ready(&w, SPAN_WORKER_HOME);
    asks(&w, 2, "{}");
    sends_modules(&w, "{}", 1 << 20, 1);
    world_close(&w); /* one is kept: nothing may leak */
}

static void a_line_tells_what_was_sent(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    for (uint32_t worker = 2; worker <= 4; worker++)
        asks(&w, worker, "{}");
    sends_modules(&w, "{}", 40 << 10, 2);
    asks(&w, 2, "{\"name\":\"b\"}");
    sends_modules(&w, "{\"name\":\"b\"}", 2 << 10, 1);
    buf_clear(&w.log);
    all_done(&w, 2, 5);
    ok(logged(&w, "3 modules and 2 other files (42 KiB) sent to 2 hosts"),
       "a cell says what went to how many machines, each counted once");
    next(&w, "%%distribute\npass");
    provide(&w);
    all_done(&w, 2, 5);
    ok(!times(&w, "sent to"), "the next one does not");
    next(&w, "%%distribute\npass");
    provide(&w);
    asks(&w, 5, "{}");
    sends_modules(&w, "{}", 2048, 0);
    all_done(&w, 2, 5);
    ok(logged(&w, "1 file (2.0 KiB) sent to 1 host\\n"), "files without modules are told, too");
    world_close(&w);
}

static void home_says(struct world *w, const char *what, const char *question, uint64_t files)
{
    struct span m = { .kind = SPAN_FOUND };

    m.v[F_FOUND_WHAT].s = slice_text(what);
    m.v[F_FOUND_QUESTION].s = slice_text(question);
    m.v[F_FOUND_CONTENT].s = slice_text("{}");
    m.v[F_FOUND_FILES].u64 = files;
    say(w, SPAN_WORKER_HOME, m);
}

/* A rank asks for files, and home sends them. */
static void sends(struct world *w, const char *question, uint64_t files)
{
    struct span m = { .kind = SPAN_FIND };

    m.v[F_FIND_WHAT].s = slice_text("files");
    m.v[F_FIND_QUESTION].s = slice_text(question);
    say(w, 2, m);
    home_says(w, "files", question, files);
    buf_clear(&w->log);
    pass(w, NS_PER_S);
}

static void a_package_of_many_files_is_told(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    asks(&w, 2, "{\"name\":\"few\"}");
    home_says(&w, "tree", "{\"name\":\"few\"}", 999);
    sends(&w, "{\"hashes\":[]}", 999);
    pass(&w, 2 * NS_PER_S);
    ok(!times(&w, "sending"), "of few files nothing is told");
    asks(&w, 2, "{\"name\":\"many\"}");
    home_says(&w, "tree", "{\"name\":\"many\"}", 20000);
    pass(&w, NS_PER_S);
    sends(&w, "{\"hashes\":[1]}", 1);
    ok(!times(&w, "sending"), "nor if the machine has all but one");
    sends(&w, "{\"hashes\":[2]}", 4095);
    ok(logged(&w, "sending 4096 files of many (0:06)"), "many files of a package are told");
    sends(&w, "{\"hashes\":[3]}", 19999);
    ok(logged(&w, "sending 20000 files of many (0:07)"), "but not more than it has");
    buf_clear(&w.log);
    pass(&w, 2 * NS_PER_S);
    ok(!times(&w, "sending") && logged(&w, "running"), "until it is there");
    all_done(&w, 2, 5);
    world_close(&w);
}

static void reports(struct world *w, uint64_t cell, const char *content)
{
    struct span m = { .kind = SPAN_FOUND, .cell = cell };

    m.v[F_FOUND_WHAT].s = slice_text("report");
    m.v[F_FOUND_QUESTION].s = slice_text("{}");
    m.v[F_FOUND_CONTENT].s = slice_text(content);
    say(w, SPAN_WORKER_HOME, m);
}

static void home_reports(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    next(&w, "%ranks code");
    ok(logged(&w, "send FIND 1") && sent(&w, "report"), "%%ranks code asks home's thread");
    reports(&w, w.last.cell + 1, "{\"text\":\"wrong\"}");
    reports(&w, w.last.cell, "{\"text\":\"helper 3 files\\n\"}");
    ok(is_over(&w, "helper 3 files") && !times(&w, "wrong"), "and shows what it answers");
    next(&w, "%ranks code");
    reports(&w, w.last.cell, "{}");
    ok(is_over(&w, "no modules"), "or that there is nothing");
    next(&w, "%ranks code");
    reports(&w, w.last.cell, "{\"error\":\"of no use\"}");
    ok(is_over(&w, "of no use"), "or why it can't tell");
    next(&w, "%ranks code");
    pass(&w, 10 * NS_PER_S);
    ok(is_over(&w, "home has not answered for 10 s"), "it does not wait for ever");
    next(&w, "import time; time.sleep(60)");
    next(&w, "%ranks code");
    ok(logged(&w, "send FIND 1"), "while home runs a cell, it is answered, too");
    reports(&w, w.last.cell, "{\"text\":\"helper 3 files\\n\"}");
    ok(logged(&w, "helper 3 files") && logged(&w, "execute_reply"), "at once");
    next(&w, "%ranks code");
    pass(&w, 10 * NS_PER_S);
    ok(logged(&w, "home has not answered for 10 s"), "or fails");
    world_close(&w);
}

/* ---- which cells send code ---- */

static struct buf capture = BUF_INIT; /* the last CAPTURE */

static bool note_capture(void *arg, unsigned node, struct slice workers, struct slice msg)
{
    struct err err = { "" };
    struct span head;

    (void)arg;
    (void)node;
    (void)workers;
    if (span_peek(&head, msg.p, msg.n, &err) == 0 && head.kind == SPAN_CAPTURE) {
        buf_clear(&capture);
        if (buf_add_slice(&capture, msg) < 0)
            abort();
    }
    return false;
}

/* Does code go to the ranks of this cell? *later: to those of later calls. */
static bool goes(bool *later)
{
    struct err err = { "" };
    struct span m;
    uint64_t flags;

    if (span_decode(&m, capture.p, capture.n, &err) < 0)
        abort();
    flags = m.v[F_CAPTURE_FLAGS].u64;
    span_release(&m);
    *later = flags & CAPTURE_FAR;
    return *later && !(flags & CAPTURE_NO_CODE);
}

static void over(struct world *w)
{
    provide(w);
    all_done(w, 2, 5);
}

static void code_goes_to_other_machines(void)
{
    struct clock clock;
    struct world w;
    bool later;

    world_open_idle(&w, &clock);
    w.agent = note_capture;
    next(&w, "%%distribute --with a\npass");
    ok(!goes(&later), "the code of a cell whose ranks are here stays here");
    provide(&w);
    all_done(&w, 2, 3);
    next(&w, "%%distribute --fresh --on ssh:h1\npass");
    ok(goes(&later), "it goes to machines that the cell names");
    world_close(&w);
    open_two(&w, &clock);
    w.agent = note_capture;
    next(&w, "%%distribute\npass");
    ok(goes(&later) && !slice_has(buf_slice(&capture), '['), "and to those where the ranks are");
    over(&w);
    next(&w, "%%distribute --with a.csv --with 'b c'\npass");
    ok(goes(&later) && slice_holds(buf_slice(&capture), "[\"a.csv\",\"b c\"]"),
       "and what --with names goes along");
    over(&w);
    next(&w, "%%distribute --no-code\npass");
    ok(!goes(&later) && later, "not with --no-code, but in later calls");
    over(&w);
    w.nb->config.code = false;
    next(&w, "%%distribute\npass");
    ok(!goes(&later) && !later, "nor with CELLSPAN_CODE=never");
    world_close(&w);
    buf_release(&capture);
}

int main(void)
{
    equal_questions_are_asked_once();
    ranks_end();
    home_ends();
    answers_that_cannot_be_sent();
    a_home_at_work_is_waited_for();
    a_question_can_be_lost();
    ranks_may_not_ask_all();
    with_and_never();
    a_large_blob_is_kept();
    not_much_is_kept();
    a_line_tells_what_was_sent();
    a_package_of_many_files_is_told();
    home_reports();
    code_goes_to_other_machines();
    return plan_done();
}
