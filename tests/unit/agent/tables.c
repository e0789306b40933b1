/* What waits, what is held, what may be on the way. */
#include <fcntl.h>
#include <unistd.h>

#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "tests/unit/tap.h"
#include "worker/agent/blobs.h"
#include "worker/agent/credit.h"
#include "worker/agent/outbox.h"

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int some_fd(void)
{
    return open("/dev/null", O_RDONLY);
}

static void urgent_messages_go_first(void)
{
    static const char want[] = "345" "12";
    struct outbox o;
    bool good = true;
    int fd;

    outbox_init(&o);
    good = outbox_add(&o, false, slice_text("1"), -1) == 0 && outbox_add(&o, false, slice_text("2"), -1) == 0 &&
           outbox_add(&o, true, slice_text("3"), -1) == 0 && outbox_add(&o, true, slice_text("4"), -1) == 0 &&
           outbox_add(&o, true, slice_text("5"), -1) == 0;
    is_int(o.bytes, 5, "what waits is counted");
    for (int i = 0; want[i]; i++) {
        good = good && outbox_first(&o)->p[0] == want[i];
        outbox_pop(&o);
    }
    ok(good && !outbox_first(&o) && o.bytes == 0, "urgent ones first, each kind in its order");
    fd = some_fd();
    ok(outbox_add(&o, false, slice_text(""), fd) == 0, "an empty one");
    outbox_release(&o);
    ok(!is_open(fd), "descriptors go with their messages");
}

static void blobs_are_found_by_number(void)
{
    struct blobs b = BLOBS_INIT;
    bool good = true;
    int fd = some_fd();

    for (uint64_t i = 0; i < 100; i++)
        good = good && blobs_put(&b, i * 37 % 101, i, dup(fd)) == 0;
    for (uint64_t i = 0; i < 100; i++)
        good = good && blobs_get(&b, i * 37 % 101) && blobs_get(&b, i * 37 % 101)->size == i;
    ok(good, "each of a hundred");
    ok(!blobs_get(&b, 1000), "an unknown number is none");
    ok(blobs_put(&b, 37, 5, fd) == 0 && blobs_get(&b, 37)->size == 5 && b.n == 100, "a number that comes again is replaced");
    blobs_drop(&b, 37);
    ok(!blobs_get(&b, 37) && !is_open(fd), "a dropped one is closed");
    blobs_drop(&b, 37);
    blobs_release(&b);
}

static void credit_is_bounded(void)
{
    struct credit c = CREDIT_INIT;

    credit_window(&c, 1000);
    is_int(c.left, 1000, "the window is what is left at first");
    credit_take(&c, 1500);
    ok(credit_is_out(&c), "a message may go over it");
    credit_give(&c, 500);
    ok(credit_is_out(&c), "0 is out");
    credit_give(&c, UINT64_MAX);
    is_int(c.left, 1000, "more than the window is never given");
    credit_take(&c, 300);
    credit_window(&c, 2000);
    is_int(c.left, 1700, "a larger window keeps what is on the way");
}

static void publish_counts_its_payload(void)
{
    struct slice buffers[] = { slice_text("12345"), slice_text("678") };
    struct span m = { .kind = SPAN_PUBLISH };
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    bool torn = true;

    m.v[F_PUBLISH_TYPE].s = slice_text("display_data");
    m.v[F_PUBLISH_CONTENT].s = slice_text("{\"a\": 1}");
    m.v[F_PUBLISH_METADATA].s = slice_text("{}");
    m.v[F_PUBLISH_BUFFERS].list = (struct span_list){ buffers, 2 };
    ok(span_encode(&m, &msg, &err) == 0, "a PUBLISH");
    is_int(credit_of_publish(buf_slice(&msg)), 8 + 2 + 5 + 3, "content, metadata and buffers count");
    for (size_t n = 0; n < msg.n; n++)
        torn = torn && credit_of_publish(slice_of(msg.p, n)) < 0;
    ok(torn, "every shorter one is torn");
    buf_release(&msg);
}

int main(void)
{
    urgent_messages_go_first();
    blobs_are_found_by_number();
    credit_is_bounded();
    publish_counts_its_payload();
    return plan_done();
}
