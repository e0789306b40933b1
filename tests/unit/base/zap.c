/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/loop/zap.h: valid questions of ZeroMQ, and invalid ones. */
#include "base/loop/zap.h"

#include <stdlib.h>
#include <zmq.h>

#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

#define LIMIT_MS   60000
#define FRAMES_MAX 40u
#define AGAIN      500

static const char some_key[ZAP_KEY_SIZE + 1] = "0123456789abcdef0123456789abcdef";
static const char long_text[5000];

struct server {
    struct loop *loop;
    void *context, *asker;
    struct zap *zap;
    unsigned asked, expected;
    struct zap_question last;
    enum zap_status say;
    bool silent;
};

/* What DEALER sends and gets. */
struct frames {
    struct slice frame[FRAMES_MAX];
    unsigned n;
};

static void stop(void *loop)
{
    loop_stop(loop);
}

static void asked(struct zap *zap, const struct zap_question *q, void *arg)
{
    struct server *d = arg;

    d->last = *q;
    if (!d->silent)
        zap_answer(zap, q, d->say, d->say == ZAP_YES ? "7.3" : "");
    if (++d->asked == d->expected)
        loop_stop(d->loop);
}

static void *asker_open(void *context)
{
    const int limit = LIMIT_MS, linger = 0;
    void *socket = zmq_socket(context, ZMQ_DEALER);

    if (!socket || zmq_setsockopt(socket, ZMQ_RCVTIMEO, &limit, sizeof limit) < 0 ||
        zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger) < 0 ||
        zmq_connect(socket, "inproc://zeromq.zap.01") < 0)
        abort();
    return socket;
}

static void server_open(struct server *d)
{
    struct err err = { "" };

    *d = (struct server){ .loop = loop_create(&clock_system, &err),
                          .context = zmq_ctx_new(),
                          .say = ZAP_YES };
    if (!d->loop || !d->context || !(d->zap = zap_open(d->loop, d->context, asked, d, &err))) {
        diag("%s", err.text);
        abort();
    }
    d->asker = asker_open(d->context);
}

static void server_close(struct server *d)
{
    zmq_close(d->asker);
    zap_close(d->zap);
    loop_destroy(d->loop);
    zmq_ctx_term(d->context);
}

static void say(void *socket, const struct frames *f)
{
    for (unsigned i = 0; i < f->n; i++)
        if (zmq_send(socket, f->frame[i].p, f->frame[i].n, i + 1 < f->n ? ZMQ_SNDMORE : 0) < 0)
            abort();
}

/* One more question is to arrive; false: none did. */
static bool ask(struct server *d, const struct frames *f)
{
    struct watch *limit = loop_timer(d->loop, LIMIT_MS * NS_PER_MS, 0, stop, d->loop, NULL);

    d->expected = d->asked + 1;
    say(d->asker, f);
    if (!limit || loop_run(d->loop, NULL) < 0)
        abort();
    watch_stop(limit);
    return d->asked == d->expected;
}

/* The answer's frames with a | after each; "": none came. */
static const char *answer(void *socket, char text[static 1024])
{
    int more = 1;
    size_t size = sizeof more, n = 0;

    while (more) {
        const int got = zmq_recv(socket, text + n, 512, 0);

        if (got < 0 || zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) < 0 ||
            n + (size_t)got > 510)
            return "";
        n += (size_t)got;
        text[n++] = '|';
    }
    text[n] = '\0';
    return text;
}

/* As ZeroMQ asks. */
static struct frames question(void)
{
    const struct slice frame[] = { slice_text(""),         slice_text("1.0"),
                                   slice_text("1"),        slice_text("agents"),
                                   slice_text("10.1.2.3"), slice_text(""),
                                   slice_text("CURVE"),    slice_of(some_key, ZAP_KEY_SIZE) };
    struct frames f = { .n = sizeof frame / sizeof *frame };

    memcpy(f.frame, frame, sizeof frame);
    return f;
}

static void a_question_and_its_answer(void)
{
    const struct frames f = question();
    struct server d;
    char text[1024];

    server_open(&d);
    ok(ask(&d, &f), "a question arrives");
    ok(slice_is(zap_domain(&d.last), "agents"), "with its domain");
    ok(zap_key(&d.last) && memcmp(zap_key(&d.last), some_key, ZAP_KEY_SIZE) == 0, "and the key");
    is_text(answer(d.asker, text), "|1.0|1|200|OK|7.3||", "yes, and who it is");
    d.say = ZAP_LATER;
    ok(ask(&d, &f), "the next one");
    is_text(answer(d.asker, text), "|1.0|1|300|refused|||", "later");
    d.say = ZAP_NO;
    ok(ask(&d, &f), "and another");
    is_text(answer(d.asker, text), "|1.0|1|400|refused|||", "no");
    server_close(&d);
}

static void an_answer_may_come_later(void)
{
    struct frames f = question();
    struct zap_question first;
    struct server d;
    char text[1024];

    server_open(&d);
    d.silent = true;
    ok(ask(&d, &f), "a question that is kept");
    first = d.last;
    f.frame[2] = slice_text("second");
    ok(ask(&d, &f), "and another");
    zap_answer(d.zap, &d.last, ZAP_NO, "");
    zap_answer(d.zap, &first, ZAP_YES, "1.1");
    is_text(answer(d.asker, text), "|1.0|second|400|refused|||", "each is answered for itself");
    is_text(answer(d.asker, text), "|1.0|1|200|OK|1.1||", "in any order");
    zmq_close(d.asker);
    d.asker = asker_open(d.context);
    zap_answer(d.zap, &first, ZAP_YES, "1.1");
    d.silent = false;
    ok(ask(&d, &f), "who asked may be gone");
    is_text(answer(d.asker, text), "|1.0|second|200|OK|7.3||", "and nobody else gets that answer");
    server_close(&d);
}

/* It is to arrive, without a key, and to be answered with `id`. */
static void is_bad(struct server *d, const struct frames *f, const char *id, const char *what)
{
    char text[1024], want[1024];

    snprintf(want, sizeof want, "|1.0|%s|400|refused|||", id);
    ok(ask(d, f) && !zap_key(&d->last), "no key: %s", what);
    is_text(answer(d->asker, text), want, "answered: %s", what);
}

static void what_is_no_question(void)
{
    static const char *const name[] = { "delimiter", "version",  "request",   "domain",
                                        "address",   "identity", "mechanism", "credentials" };
    const struct frames good = question();
    struct frames f;
    struct server d;

    server_open(&d);
    d.say = ZAP_NO;
    for (unsigned i = 0; i < good.n; i++) {
        f = good;
        f.frame[i] = slice_of(long_text, ZAP_FIELD_MAX + 1);
        is_bad(&d, &f, i == 2 ? "" : "1", name[i]);
        f.frame[i] = slice_of(long_text, sizeof long_text);
        is_bad(&d, &f, i == 2 ? "" : "1", name[i]);
    }
    for (unsigned n = 1; n < good.n; n++) {
        f = good;
        f.n = n;
        is_bad(&d, &f, n > 2 ? "1" : "", "frames are missing");
    }
    for (f = good; f.n < FRAMES_MAX; f.n += 8) {
        for (unsigned i = f.n; i < f.n + 8; i++)
            f.frame[i] = i % 2 ? slice_of(long_text, sizeof long_text) : slice_text("");
        f.n++;
        is_bad(&d, &f, "1", "frames too many");
        f.n--;
    }
    f = good;
    f.frame[0] = slice_text("x");
    is_bad(&d, &f, "1", "no empty delimiter");
    f = good;
    f.frame[1] = slice_text("2.0");
    is_bad(&d, &f, "1", "another version");
    f.frame[1] = slice_text("1.");
    is_bad(&d, &f, "1", "half a version");
    f = good;
    f.frame[6] = slice_text("PLAIN");
    is_bad(&d, &f, "1", "another mechanism");
    f.frame[6] = slice_text("CURVED");
    is_bad(&d, &f, "1", "a mechanism's name with more behind it");
    f = good;
    f.frame[7] = slice_of(some_key, ZAP_KEY_SIZE - 1);
    is_bad(&d, &f, "1", "a short key");
    f.frame[7] = slice_of(some_key, ZAP_KEY_SIZE + 1);
    is_bad(&d, &f, "1", "a long key");
    f.frame[7] = slice_text("");
    is_bad(&d, &f, "1", "an empty key");
    d.say = ZAP_YES;
    ok(ask(&d, &good) && zap_key(&d.last), "and after all that a good one is read");
    server_close(&d);
}

static void the_longest_that_is_read(void)
{
    struct frames f = question();
    char id[ZAP_FIELD_MAX + 1], text[1024], want[1024];
    struct server d;

    server_open(&d);
    memset(id, 'i', ZAP_FIELD_MAX);
    id[ZAP_FIELD_MAX] = '\0';
    f.frame[2] = slice_text(id);
    f.frame[3] = f.frame[4] = f.frame[5] = slice_of(long_text, ZAP_FIELD_MAX);
    ok(ask(&d, &f) && zap_key(&d.last) && zap_domain(&d.last).n == ZAP_FIELD_MAX,
       "fields of 255 bytes are fine");
    snprintf(want, sizeof want, "|1.0|%s|200|OK|7.3||", id);
    is_text(answer(d.asker, text), want, "and answered under their request's id");
    server_close(&d);
}

static void one_for_each_context(void)
{
    struct err err = { "" };
    struct server d;

    server_open(&d);
    ok(!zap_open(d.loop, d.context, asked, &d, &err) && strstr(err.text, "authentication"),
       "a second one: %s", err.text);
    server_close(&d);
    zap_close(NULL);
}

static void memory_is_out(void)
{
    struct loop *loop = loop_create(&clock_system, NULL);
    struct zap *z = NULL;
    unsigned k = 0, told = 0;

    while (!z) {
        void *context = zmq_ctx_new();
        struct err err = { "" };

        alloc_fail_at(k++);
        z = zap_open(loop, context, asked, NULL, &err);
        told += !z && alloc_failed() && err.text[0];
        alloc_fail_at(-1);
        zap_close(z);
        zmq_ctx_term(context);
    }
    ok(k > 1 && told == k - 1, "each of %u allocations may fail", k - 1);
    loop_destroy(loop);
}

/* ZeroMQ ends a closed socket later, in a thread of its own. */
static void one_closed_makes_room_at_once(void)
{
    struct loop *loop = loop_create(&clock_system, NULL);
    void *context = zmq_ctx_new();
    struct err err = { "" };
    int opened = 0;

    for (int i = 0; i < AGAIN; i++) {
        struct zap *z = zap_open(loop, context, asked, NULL, &err);

        opened += z != NULL;
        zap_close(z);
    }
    is_int(opened, AGAIN, "one is opened as soon as the one before is closed: %s", err.text);
    zmq_ctx_term(context);
    loop_destroy(loop);
}

int main(void)
{
    a_question_and_its_answer();
    an_answer_may_come_later();
    what_is_no_question();
    the_longest_that_is_read();
    one_for_each_context();
    memory_is_out();
    one_closed_makes_room_at_once();
    return plan_done();
}
