/* SPDX-License-Identifier: BSD-3-Clause */
/* told.c - a client that tells what it has read of iopub, as `cellspan run` does. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "kernel/jupyter/channels.h"
#include "kernel/jupyter/out_message.h"
#include "tests/unit/jupyter/client.h"
#include "tests/unit/tap.h"

#define MESSAGES 120u
#define TEXT     100000u
#define WINDOW   (4u << 20)

struct kernel_end {
    struct loop *loop;
    struct channels *channels;
};

/* What has come to one of the clients. */
struct reader {
    struct test_client c;
    unsigned long long number;
    uint64_t bytes;
    unsigned streams;
};

static uint64_t ahead_ns;

static uint64_t now_ns(void *arg)
{
    return clock_system.now_ns(arg) + ahead_ns;
}

static uint64_t wall_ns(void *arg)
{
    return clock_system.wall_ns(arg);
}

static void ignore(void *arg, struct request *r)
{
    (void)arg;
    (void)r;
}

static void stop(void *loop)
{
    loop_stop(loop);
}

static void pass(struct kernel_end *k, unsigned ms)
{
    struct err err = { "" };
    struct watch *w = loop_timer(k->loop, ms * NS_PER_MS, 0, stop, k->loop, &err);

    if (!w || loop_run(k->loop, &err) < 0)
        abort();
    watch_stop(w);
}

/* All that comes, until nothing has for a while. */
static void read_all(struct kernel_end *k, struct reader *to)
{
    struct received r;

    for (unsigned silent = 0; silent < 20; silent++) {
        pass(k, 10);
        while (client_hear(&to->c, PORT_IOPUB, 0, &r)) {
            if (r.n && r.frame[0].n > 1 && r.frame[0].p[0] == '\x01')
                to->number = strtoull(r.frame[0].p + 1, NULL, 10);
            for (size_t i = 0; i < r.n; i++)
                to->bytes += r.frame[i].n;
            to->bytes += OUT_MESSAGE_ALLOWANCE;
            to->streams += r.fault == JUPYTER_FINE && strcmp(r.m.type, "stream") == 0;
            received_release(&r);
            silent = 0;
        }
    }
}

static void tell(struct kernel_end *k, struct reader *by, uint64_t bytes)
{
    char content[96];

    snprintf(content, sizeof content, "{\"subscriber\":%llu,\"bytes\":%llu}", by->number,
             (unsigned long long)bytes);
    client_say(&by->c, PORT_CONTROL, CHANNELS_READ, content, NULL);
    pass(k, 50);
}

static void flood(struct kernel_end *k)
{
    char *text = malloc(TEXT + 64);
    struct err err = { "" };

    if (!text)
        abort();
    memset(text, 'x', TEXT + 64);
    memcpy(text, "{\"name\":\"stdout\",\"text\":\"", 25);
    memcpy(text + TEXT, "\"}", 3);
    for (unsigned i = 0; i < MESSAGES; i++)
        if (channels_publish(k->channels, NULL, "stream",
                             &(struct content){ .content = slice_text(text) }, &err) < 0)
            abort();
    free(text);
}

static void reader_open(struct kernel_end *k, struct reader *r, const struct connection *to,
                        const char *session)
{
    char endpoint[CONNECTION_ENDPOINT_SIZE];
    struct err err = { "" };
    const int none = 0;
    void *sub;

    *r = (struct reader){ .number = 0 };
    client_begin(&r->c, to, session);
    client_connect(&r->c, to, PORT_CONTROL, session, (struct test_keys){ NULL, NULL, NULL });
    sub = r->c.socket[PORT_IOPUB] = zmq_socket(r->c.context, ZMQ_SUB);
    zmq_setsockopt(sub, ZMQ_RCVHWM, &none, sizeof none); /* unlike client_connect() */
    zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "", 0);
    if (connection_endpoint(to, PORT_IOPUB, endpoint, &err) < 0 || zmq_connect(sub, endpoint) < 0)
        abort();
    for (unsigned times = 0; !r->bytes && times < 300; times++)
        read_all(k, r);
}

static void reader_close(struct reader *r)
{
    zmq_close(r->c.socket[PORT_CONTROL]);
    zmq_close(r->c.socket[PORT_IOPUB]);
    zmq_ctx_term(r->c.context);
    jupyter_session_release(&r->c.session);
}

static void it_is_sent_what_it_can_keep(struct kernel_end *k, struct reader *teller,
                                        struct reader *other)
{
    uint64_t before;

    tell(k, teller, teller->bytes);
    flood(k);
    before = teller->bytes;
    read_all(k, teller);
    ok(teller->streams > 30 && teller->bytes - before < WINDOW + 2 * TEXT,
       "it is sent 4 MiB that it has not read, and no more (%u messages)", teller->streams);
    read_all(k, other);
    is_int(other->streams, MESSAGES, "who tells nothing gets all, as far as it reads");
    ahead_ns += 60 * NS_PER_S;
    read_all(k, teller);
    ahead_ns += 60 * NS_PER_S;
    tell(k, teller, teller->bytes + (UINT64_C(1) << 40));
    tell(k, teller, 0);
    before = teller->bytes;
    read_all(k, teller);
    ok(teller->bytes == before, "to have read more than was sent, or less than before, counts not");
    for (unsigned i = 0; i < 10 && teller->streams < MESSAGES; i++) {
        tell(k, teller, teller->bytes);
        read_all(k, teller);
    }
    is_int(teller->streams, MESSAGES,
           "when it has read that, it gets the rest, also after minutes: nothing is dropped");
}

int main(void)
{
    static const struct clock clock = { .now_ns = now_ns, .wall_ns = wall_ns };
    char dir[] = "/tmp/cellspan-test-XXXXXX", file[64];
    struct reader teller, other;
    struct connection to;
    struct kernel_end k;
    struct err err = { "" };

    if (!mkdtemp(dir) || random_open(&err) < 0 || !(k.loop = loop_create(&clock, &err)))
        abort();
    connection_over_ipc(&to, dir, "ipc");
    snprintf(file, sizeof file, "%s/c.json", dir);
    if (connection_write(&to, file, &err) < 0 ||
        !(k.channels = channels_create(k.loop, file, ignore, NULL, &err)))
        abort();
    reader_open(&k, &teller, &to, "teller");
    reader_open(&k, &other, &to, "other");
    it_is_sent_what_it_can_keep(&k, &teller, &other);
    reader_close(&teller);
    reader_close(&other);
    channels_destroy(k.channels);
    loop_destroy(k.loop);
    connection_release(&to);
    unlink(file);
    rmdir(dir);
    return plan_done();
}
