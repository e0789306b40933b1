/* SPDX-License-Identifier: BSD-3-Clause */
/* jupyter.c - Jupyter's frames: which messages are refused, and that nothing is parsed before it is
 * verified. */
#include "protocol/jupyter.h"

#include <stdio.h>
#include <stdlib.h>

#include "protocol/json_repair.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

#define KEY "a0436f6c-1916-498b-8eb9-e81ab9368e84"
#define HEADER                                                                                       \
    "{\"msg_id\":\"m-1\",\"msg_type\":\"kernel_info_request\",\"session\":\"s\",\"username\":\"u\"," \
    "\"date\":\"2026-01-02T03:04:05.678901Z\",\"version\":\"5.4\"}"
/* by Python's hmac */
#define SIGNATURE "8499602287770ccb28c9bbb37656f708eaab1f8527ec1947703011c227d990aa"
#define FRAMES    8

static struct jupyter_session session_of(const char *key)
{
    struct jupyter_session s;
    struct err err = { "" };

    if (jupyter_session_init(&s, "0b1e", "us\"er", slice_text(key), &err) < 0)
        abort();
    return s;
}

/* client, delimiter, signature, four parts, one buffer */
static void good_frames(struct slice frame[FRAMES])
{
    static const char *const text[FRAMES] = {
        "client", JUPYTER_DELIMITER, SIGNATURE, HEADER, "{}", "{}", "{}", "buf"
    };

    for (size_t i = 0; i < FRAMES; i++)
        frame[i] = slice_text(text[i]);
}

/* Decodes with no signature seen before, and releases. */
static enum jupyter_fault fault_with(const char *key, const struct slice *frame, size_t n)
{
    struct jupyter_session s = session_of(key);
    struct jupyter_message m;
    const enum jupyter_fault fault = jupyter_decode(&s, frame, n, &m);

    if (fault == JUPYTER_FINE)
        jupyter_message_release(&m);
    jupyter_session_release(&s);
    return fault;
}

static void signed_by_us(struct jupyter_session *s, const char *header, const char *content,
                         struct slice frame[6], char signature[HMAC_TEXT_SIZE])
{
    frame[0] = slice_text(JUPYTER_DELIMITER);
    frame[2] = slice_text(header);
    frame[3] = frame[4] = slice_text("{}");
    frame[5] = slice_text(content);
    hmac_sign(&s->key, frame + 2, 4, signature);
    frame[1] = slice_text(signature);
}

static enum jupyter_fault fault_of_content(const char *header, const char *content)
{
    struct jupyter_session s = session_of(KEY);
    char signature[HMAC_TEXT_SIZE];
    struct slice frame[6];

    signed_by_us(&s, header, content, frame, signature);
    jupyter_session_release(&s);
    return fault_with(KEY, frame, 6);
}

static void a_good_message_is_read(void)
{
    struct jupyter_session s = session_of(KEY);
    struct jupyter_message m;
    struct slice frame[FRAMES];

    good_frames(frame);
    is_int(jupyter_decode(&s, frame, FRAMES, &m), JUPYTER_FINE,
           "a message signed by Python's hmac is accepted");
    is_text(m.type, "kernel_info_request", "its type is read");
    is_text(m.id, "m-1", "its id is read");
    ok(m.identities == 1 && slice_is(m.identity[0], "client"),
       "what stands before the delimiter leads back");
    ok(m.buffers == 1 && slice_is(m.buffer[0], "buf"),
       "what stands behind the content are buffers");
    jupyter_message_release(&m);
    is_int(jupyter_decode(&s, frame, FRAMES, &m), JUPYTER_REPLAYED,
           "the same signature a second time is refused");
    jupyter_session_release(&s);
}

static void changed_frames_are_refused(void)
{
    struct slice frame[FRAMES];

    for (size_t i = 3; i < 7; i++) {
        good_frames(frame);
        frame[i] = slice_text("{ }");
        is_int(fault_with(KEY, frame, FRAMES), JUPYTER_FORGED,
               "a change in frame %zu is a wrong signature", i);
    }
    good_frames(frame);
    frame[2] = slice_text("8499602287770CCB28c9bbb37656f708eaab1f8527ec1947703011c227d990aa");
    is_int(fault_with(KEY, frame, FRAMES), JUPYTER_FORGED, "a signature has one spelling only");
    frame[2] = slice_text("84");
    is_int(fault_with(KEY, frame, FRAMES), JUPYTER_FORGED, "a short signature is wrong");
    frame[2] = slice_text("");
    is_int(fault_with(KEY, frame, FRAMES), JUPYTER_UNSIGNED, "no signature is refused");
    is_int(fault_with("another key", frame, FRAMES), JUPYTER_UNSIGNED, "also with another key");
    good_frames(frame);
    is_int(fault_with("another key", frame, FRAMES), JUPYTER_FORGED,
           "another key's signature is wrong");
    is_int(fault_with("", frame, FRAMES), JUPYTER_FINE, "with an empty key nothing is checked");
    frame[2] = slice_text("");
    is_int(fault_with("", frame, FRAMES), JUPYTER_FINE, "with an empty key nothing need be signed");
}

static void every_cut_is_refused(void)
{
    struct slice frame[FRAMES];
    bool few = true, parts = true;

    good_frames(frame);
    for (size_t n = 0; n < FRAMES - 1; n++)
        few = few && fault_with(KEY, frame, n) == (n < 2 ? JUPYTER_NO_DELIMITER : JUPYTER_TOO_FEW);
    ok(few, "a message that ends before its content is refused, at every frame");
    for (size_t i = 2; i < 7; i++) {
        good_frames(frame);
        for (size_t n = 0, all = frame[i].n; n < all; n++) {
            frame[i].n = n;
            parts = parts && fault_with(KEY, frame, FRAMES) != JUPYTER_FINE;
        }
    }
    ok(parts, "a frame that ends early is refused, at every byte");
    good_frames(frame);
    frame[1] = slice_text("<IDS|MSG");
    is_int(fault_with(KEY, frame, FRAMES), JUPYTER_NO_DELIMITER, "no delimiter is refused");
    is_int(fault_with(KEY, NULL, 0), JUPYTER_NO_DELIMITER, "no frame at all is refused");
}

static void masses_are_refused(void)
{
    struct slice *many = calloc(JUPYTER_FRAMES_MAX + 1, sizeof *many);
    struct slice frame[FRAMES];
    char *large = malloc(JUPYTER_HEADER_MAX + 1);

    if (!many || !large)
        abort();
    for (size_t i = 0; i <= JUPYTER_FRAMES_MAX; i++)
        many[i] = slice_text("x");
    is_int(fault_with(KEY, many, JUPYTER_FRAMES_MAX + 1), JUPYTER_TOO_MANY,
           "too many frames are refused");
    memset(large, ' ', JUPYTER_HEADER_MAX + 1);
    good_frames(frame);
    frame[3] = slice_of(large, JUPYTER_HEADER_MAX + 1);
    is_int(fault_with(KEY, frame, FRAMES), JUPYTER_TOO_LARGE, "a large header is refused unread");
    good_frames(frame);
    frame[6].n = JUPYTER_CONTENT_MAX + 1; /* the bytes are not there: touching them would be seen */
    is_int(fault_with(KEY, frame, FRAMES), JUPYTER_TOO_LARGE, "a large content is refused unread");
    good_frames(frame);
    frame[7].n = SIZE_MAX;
    is_int(fault_with(KEY, frame, FRAMES), JUPYTER_TOO_LARGE, "large buffers are refused unread");
    free(many);
    free(large);
}

static void json_is_checked_once_verified(void)
{
    struct buf deep = BUF_INIT;
    int rc = buf_add_text(&deep, "{\"a\":");

    for (int i = 0; i < 100000 && rc == 0; i++)
        rc = buf_add_text(&deep, "[");
    if (rc < 0)
        abort();
    is_int(fault_of_content(HEADER, "{\"code\":\"1\"}"), JUPYTER_FINE, "an object is accepted");
    is_int(fault_of_content(HEADER, deep.p), JUPYTER_NOT_JSON,
           "a hundred thousand brackets are refused");
    is_int(fault_of_content(HEADER, "{\"a\":\"[[[[ \\\" [[[\"}"), JUPYTER_FINE,
           "brackets in texts are no depth");
    is_int(fault_of_content(HEADER, "[]"), JUPYTER_NOT_JSON, "an array is no content");
    is_int(fault_of_content(HEADER, ""), JUPYTER_NOT_JSON, "nothing is no content");
    is_int(fault_of_content(HEADER, "{} {}"), JUPYTER_NOT_JSON,
           "what follows the object is refused");
    is_int(fault_of_content(HEADER, "{\"a\":\"\xff\"}"), JUPYTER_FINE,
           "what is not UTF-8 is repaired");
    is_int(fault_of_content(HEADER, "\xff{}"), JUPYTER_NOT_JSON, "but not what is no JSON");
    is_int(fault_of_content(HEADER, "{\"a\":\"\\u0000\"}"), JUPYTER_FINE, "code may hold a NUL");
    is_int(fault_of_content(HEADER, "{\"a\":100000000000000000000}"), JUPYTER_FINE,
           "JavaScript's large numbers are read");
    is_int(fault_of_content("{}", "{}"), JUPYTER_NO_HEADER, "a header without a type is refused");
    is_int(fault_of_content("{\"msg_type\":\"a\"}", "{}"), JUPYTER_NO_HEADER,
           "a header without an id is refused");
    is_int(fault_of_content("{\"msg_type\":1,\"msg_id\":\"a\"}", "{}"), JUPYTER_NO_HEADER,
           "a type is a text");
    is_int(fault_of_content("{\"msg_type\":\"a\\u0000b\",\"msg_id\":\"a\"}", "{}"),
           JUPYTER_NO_HEADER, "a type with a NUL is refused");
    buf_release(&deep);
}

static void what_is_written_can_be_read(void)
{
    struct jupyter_session s = session_of(KEY), reader = session_of(KEY);
    struct slice out[JUPYTER_OUT_FRAMES];
    struct jupyter_message m;
    struct err err = { "" };
    char first[256];

    is_int(jupyter_encode(&s, "stream", "2026-01-02T03:04:05Z", slice_text(""), slice_text(""),
                          slice_text("{\"name\":\"stdout\",\"text\":\"a\"}"), out, &err),
           0, "a message is written");
    ok(slice_is(out[JUPYTER_OUT_PARENT], "{}"),
       "without a parent, parent_header is {}, never null");
    ok(slice_is(out[JUPYTER_OUT_METADATA], "{}"), "without metadata it is {}");
    is_int(jupyter_decode(&reader, out, JUPYTER_OUT_FRAMES, &m), JUPYTER_FINE,
           "its reader accepts it");
    is_text(m.type, "stream", "with its type");
    is_text(json_string_value(json_object_get(m.header, "version")), JUPYTER_VERSION,
            "and the protocol's version");
    is_text(json_string_value(json_object_get(m.header, "username")), "us\"er",
            "and the user's name, quoted");
    snprintf(first, sizeof first, "%s", m.id);
    jupyter_message_release(&m);

    is_int(jupyter_encode(&s, "a\"b\\\n", "2026-01-02T03:04:05Z", slice_text(HEADER),
                          slice_text("{\"m\":1}"), slice_text("{}"), out, &err),
           0, "a type of any text is written");
    is_int(jupyter_decode(&reader, out, JUPYTER_OUT_FRAMES, &m), JUPYTER_FINE, "and can be read");
    is_text(m.type, "a\"b\\\n", "as it was");
    ok(strcmp(m.id, first) != 0, "no two messages have one id");
    ok(slice_is(m.part[JUPYTER_PARENT], HEADER), "the parent's header is copied as it came");
    jupyter_message_release(&m);
    jupyter_session_release(&s);
    jupyter_session_release(&reader);
}

static void displays_are_written(void)
{
    struct buf out = BUF_INIT;
    const struct slice none = slice_of(NULL, 0);

    ok(jupyter_display(&out, slice_text("a\nb"), slice_text("<b>\"</b>"), NULL) == 0, "memory");
    is_text(out.p,
            "{\"data\":{\"text/plain\":\"a\\nb\",\"text/html\":\"<b>\\\"</b>\"},"
            "\"metadata\":{},\"transient\":{}}",
            "text and HTML");
    buf_clear(&out);
    ok(jupyter_display(&out, slice_text(""), none, "bars-1") == 0, "memory");
    is_text(out.p,
            "{\"data\":{\"text/plain\":\"\"},\"metadata\":{},"
            "\"transient\":{\"display_id\":\"bars-1\"}}",
            "text alone, which may be empty, in a display that is updated");
    buf_release(&out);
    alloc_fail_at(0);
    ok(jupyter_display(&out, none, slice_text("a"), NULL) < 0 && out.n == 0,
       "a failed allocation is said");
    alloc_fail_at(-1);
    ok(jupyter_display(&out, none, slice_text("a"), NULL) == 0 && strstr(out.p, "{\"text/html\":"),
       "HTML alone");
    buf_release(&out);
}

static void signatures_are_those_of_the_standard(void)
{
    struct slice part[3] = { slice_text("what do ya "), slice_text("want "),
                             slice_text("for nothing?") };
    char text[HMAC_TEXT_SIZE], key[101], c[201];
    struct hmac h;
    struct err err = { "" };

    is_int(hmac_init(&h, slice_text("Jefe"), &err), 0, "a short key is taken");
    hmac_sign(&h, part, 3, text);
    is_text(text, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            "RFC 4231, test case 2, in three parts");
    hmac_release(&h);

    memset(key, 'k', 100);
    memset(c, 'c', 200);
    key[100] = c[200] = '\0';
    part[0] = slice_text("ab");
    part[1] = slice_text(c);
    is_int(hmac_init(&h, slice_text(key), &err), 0, "a key longer than a block is taken");
    hmac_sign(&h, part, 2, text);
    is_text(text, "fc2d48b82a4bfb5d00c04496a3cca5c024f4fcd73ed0c6fed97ba80c87a03bd6",
            "as Python signs with it");
    hmac_release(&h);
}

static void the_seen_signatures_are_bounded(void)
{
    struct seen_signatures h;
    char signature[HMAC_TEXT_SIZE];
    bool fresh = true, known = true;

    seen_signatures_init(&h, 1000);
    for (unsigned i = 1; i < 5000; i++) {
        snprintf(signature, sizeof signature, "%08x%056x", i * 2654435761u, i);
        fresh = fresh && seen_signatures_add(&h, slice_text(signature)) == 0;
    }
    for (unsigned i = 4501; i < 5000; i++) {
        snprintf(signature, sizeof signature, "%08x%056x", i * 2654435761u, i);
        known = known && seen_signatures_add(&h, slice_text(signature)) == 1;
    }
    ok(fresh, "no signature is taken for another");
    ok(known, "the latest half is always known");
    ok(h.young.used + h.old.used <= 1000, "no more than the limit is remembered");
    seen_signatures_release(&h);
}

static void failing_allocations_leave_nothing(void)
{
    struct slice frame[FRAMES];
    bool refused = true;

    good_frames(frame);
    for (long nth = 0;; nth++) {
        struct jupyter_session s = session_of(KEY);
        struct jupyter_message m;
        enum jupyter_fault fault;
        bool struck;

        alloc_fail_at(nth);
        fault = jupyter_decode(&s, frame, FRAMES, &m);
        struck = alloc_failed();
        alloc_fail_at(-1);
        if (fault == JUPYTER_FINE)
            jupyter_message_release(&m);
        else
            refused = refused && (fault == JUPYTER_NO_MEMORY || fault == JUPYTER_NOT_JSON ||
                                  fault == JUPYTER_NO_HEADER);
        jupyter_session_release(&s);
        if (!struck)
            break;
    }
    ok(refused, "a message for which there is no memory is refused, wherever it runs out");
}

static void is_repaired(const char *text, const char *want, const char *sentence)
{
    struct buf out = BUF_INIT;

    is_int(json_repair(&out, slice_text(text)), 0, "repaired: %s", sentence);
    is_text(out.p, want, sentence);
    buf_release(&out);
}

/* Python and JavaScript write them; a message must not be lost for it. */
static void what_is_no_character_is_replaced(void)
{
    json_t *object;

    is_repaired("\"\\udcff\"", "\"\\ufffd\"", "the second half of a character alone");
    is_repaired("\"\\uD800x\"", "\"\\ufffdx\"", "the first half alone");
    is_repaired("\"\\uD800\\uD83D\\ude00\"", "\"\\ufffd\\uD83D\\ude00\"",
                "a whole character stays");
    is_repaired("\"\\ude00\\ud83d\"", "\"\\ufffd\\ufffd\"", "two halves in the wrong order");
    is_repaired("\"\\\\ud800\\\\\\ud800\"", "\"\\\\ud800\\\\\\ufffd\"",
                "an escaped backslash is no escape");
    is_repaired("\"\\ud80", "\"\\ud80", "a torn escape stays");
    is_repaired("\"\\ud800\\", "\"\\ufffd\\", "and a torn one after it");
    is_repaired("\"\\ud8zz\"", "\"\\ud8zz\"", "what is no escape stays");
    is_repaired("\"a\377b\"", "\"a\357\277\275b\"", "a byte that is no UTF-8");
    object = jupyter_object(
        slice_text("{\"code\": \"'\\udcff\377'\", \"n\": 100000000000000000000}"));
    is_text(json_string_value(json_object_get(object, "code")), "'\357\277\275\357\277\275'",
            "such an object is read");
    json_decref(object);
    ok(!jupyter_object(slice_text("{\"a\": \"\\ud8\"}")), "a torn escape is not");
}

int main(void)
{
    signatures_are_those_of_the_standard();
    a_good_message_is_read();
    changed_frames_are_refused();
    every_cut_is_refused();
    masses_are_refused();
    json_is_checked_once_verified();
    what_is_no_character_is_replaced();
    what_is_written_can_be_read();
    displays_are_written();
    the_seen_signatures_are_bounded();
    failing_allocations_leave_nothing();
    return plan_done();
}
