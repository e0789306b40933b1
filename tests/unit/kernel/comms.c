/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of comms: widgets' copies, updates that become one, and what is told of them. */
#include "kernel/comms/comms.h"

#include <stdlib.h>

#include "tests/unit/tap.h"

static json_t *parsed(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);

    if (!value)
        abort();
    return value;
}

static struct page_comm *widget(struct comm_table *t, const char *id, uint32_t worker,
                                const char *data)
{
    struct page_comm *c = comms_open(t, slice_text(id), slice_text(COMM_WIDGET), worker);
    json_t *value = parsed(data);

    if (!c)
        abort();
    comms_copy(t, c, value, NULL, 0, true);
    json_decref(value);
    return c;
}

static void set(struct comm_table *t, struct page_comm *c, const char *data, const char *bytes)
{
    const struct slice one = slice_text(bytes);
    json_t *value = parsed(data);

    comms_copy(t, c, value, &one, bytes ? 1 : 0, false);
    json_decref(value);
}

/* The states of all as text; bytes: the first buffer, or NULL where there is none. */
static struct buf states(const struct comm_table *t, int rc, const char *bytes)
{
    struct buf out = BUF_INIT;
    struct slice *list = NULL;
    size_t n;

    ok(comms_states(t, slice_text("control"), &out, &list, &n) == 0 &&
           (comms_lacking(t, NULL) != NULL) == (rc != 0) &&
           (rc != 0 || (n == (bytes != NULL) && (!bytes || slice_is(list[0], bytes)))),
       rc ? "a widget without a copy is noticed" : "the states come with their bytes");
    free(list);
    return out;
}

static bool says(const struct buf *b, const char *text)
{
    if (b->p && strstr(b->p, text))
        return true;
    diag("%s is not in %s", text, b->p ? b->p : "nothing");
    return false;
}

static void table(void)
{
    struct comm_table *t = comms_create();
    struct page_comm *a = comms_open(t, slice_text("a"), slice_text("x"), 1);
    struct page_comm *b = comms_open(t, slice_text("b"), slice_text("y"), 4);
    json_t *info;

    (void)comms_open(t, slice_text("k"), slice_text(COMM_CONTROL), 0);
    ok(comms_find(t, slice_text("a")) == a && comms_find(t, slice_text("b")) == b &&
           !comms_find(t, slice_text("c")),
       "a comm is found by its id");
    ok(comms_of(t, 4, NULL) == b && !comms_of(t, 4, b) && !comms_of(t, 5, NULL),
       "and by its worker");
    info = comms_info(t, slice_text(""));
    ok(json_object_size(info) == 2, "comm_info names all but the kernel's own");
    json_decref(info);
    info = comms_info(t, slice_text("y"));
    ok(json_object_size(info) == 1 && json_object_get(info, "b"), "or those of a target");
    json_decref(info);
    a = comms_open(t, slice_text("a"), slice_text("x"), 7);
    ok(comms_count(t) == 3 && a && comms_find(t, slice_text("a"))->worker == 7,
       "an id that is opened again belongs to the newer one");
    comms_close(t, b);
    ok(!comms_find(t, slice_text("b")) && comms_count(t) == 2, "a closed comm is gone");
    comms_destroy(t);
}

static void copies(void)
{
    struct comm_table *t = comms_create();
    struct page_comm *c =
        widget(t, "w", 2,
               "{\"state\":{\"_model_name\":\"M\",\"_model_module\":\"mod\",\"value\":1,"
               "\"old\":2},\"buffer_paths\":[]}");
    struct buf all;

    set(t, c, "{\"state\":{\"value\":5},\"buffer_paths\":[]}", NULL);
    all = states(t, 0, NULL);
    ok(says(&all, "\"model_name\":\"M\"") && says(&all, "\"value\":5") && says(&all, "\"old\":2") &&
           says(&all, "\"comm_id\":\"control\""),
       "later values win, the others stay");
    buf_release(&all);
    set(t, c, "{\"state\":{\"deep\":{\"a\":1}},\"buffer_paths\":[[\"deep\",\"b\"]]}", "bytes");
    all = states(t, 0, "bytes");
    ok(says(&all, "\"buffer_paths\":[[\"w\",\"deep\",\"b\"]]"), "a path begins with the widget");
    buf_release(&all);
    set(t, c, "{\"state\":{\"deep\":null},\"buffer_paths\":[]}", NULL);
    all = states(t, 0, NULL);
    buf_release(&all);
    set(t, c, "{\"state\":{},\"buffer_paths\":[[\"value\"]]}", "raw");
    all = states(t, 0, "raw");
    ok(!strstr(all.p, "\"value\":5"), "bytes replace the value of their name");
    buf_release(&all);
    set(t, c, "{\"state\":{},\"buffer_paths\":[[\"value\"]]}", NULL);
    all = states(t, 1, NULL);
    buf_release(&all);
    comms_destroy(t);
}

static void too_much(void)
{
    struct comm_table *t = comms_create();
    struct page_comm *c = widget(t, "w", 2, "{\"state\":{\"v\":1}}");
    const size_t n = COMM_COPIES_MAX + 1;
    char *big = calloc(1, n + 1);
    struct buf all;

    if (!big)
        abort();
    memset(big, 'x', n);
    set(t, c, "{\"state\":{},\"buffer_paths\":[[\"v\"]]}", big);
    ok(!c->copied && c->state.size == 0, "what does not fit is no copy any more");
    (void)widget(t, "small", 3, "{\"state\":{\"v\":1}}");
    all = states(t, 1, NULL);
    buf_release(&all);
    comms_close(t, c);
    all = states(t, 0, NULL);
    ok(says(&all, "small"), "the others have theirs");
    buf_release(&all);
    free(big);
    comms_destroy(t);
}

static void wait_with(struct comm_table *t, struct page_comm *c, const char *data)
{
    json_t *value = parsed(data);

    if (comms_wait(t, c, value, NULL, 0) < 0)
        abort();
    json_decref(value);
}

static bool may_merge(const struct page_comm *c, const char *data)
{
    json_t *value = parsed(data);
    const bool may = comms_may_merge(c, value);

    json_decref(value);
    return may;
}

static void merging(void)
{
    struct comm_table *t = comms_create();
    struct page_comm *a = widget(t, "a", 2, "{\"state\":{}}"),
                     *b = widget(t, "b", 3, "{\"state\":{}}");
    struct buf content = BUF_INIT;
    struct widget_state kept;
    struct slice *list;

    for (unsigned k = 0; k < COMM_SLOT_MAX; k++)
        if (!comms_may_send(t, COMM_SLOT_NS * 7))
            abort();
    ok(!comms_may_send(t, COMM_SLOT_NS * 7 + 1), "so many leave in one slot");
    ok(comms_due_ns(t) == UINT64_MAX && !comms_waits(t), "nothing waits yet");
    wait_with(t, a, "{\"state\":{\"x\":1,\"y\":1}}");
    wait_with(t, b, "{\"state\":{\"x\":7}}");
    wait_with(t, a, "{\"state\":{\"x\":2}}");
    ok(may_merge(a, "{\"state\":{\"x\":3,\"z\":null}}") &&
           !may_merge(a, "{\"state\":{\"x\":null}}"),
       "null does not replace a value that waits");
    ok(comms_due_ns(t) == COMM_SLOT_NS * 8 && comms_may_send(t, COMM_SLOT_NS * 8),
       "what waits may leave in the next slot");
    ok(comms_waiting(t, 0) == a && comms_waiting(t, 3) == b && !comms_waiting(t, 4),
       "in the order in which they began to wait, or by worker");
    ok(comms_take(t, a, &content, &kept, &list) == 0 && says(&content, "\"x\":2") &&
           says(&content, "\"y\":1") && says(&content, "\"method\":\"update\"") &&
           says(&content, "\"comm_id\":\"a\""),
       "two updates of a comm have become one");
    ok(comms_waiting(t, 0) == b && !comms_waiting(t, 2), "it waits no more");
    comms_close(t, b);
    ok(!comms_waits(t), "what waits goes with its comm");
    wait_with(t, a, "{\"state\":{\"x\":3}}");
    ok(comms_waiting(t, 0) == a, "another may wait after that");
    widget_state_release(&kept);
    free(list);
    buf_release(&content);
    comms_destroy(t);
}

static void texts(void)
{
    struct comm_table *t = comms_create();
    struct buf out = BUF_INIT;
    struct page_comm *box = widget(t, "box", 2,
                                   "{\"state\":{\"children\":[\"IPY_MODEL_l\",\"IPY_MODEL_none\","
                                   "\"IPY_MODEL_bar\",\"IPY_MODEL_e\",\"IPY_MODEL_box\"]}}");

    (void)widget(t, "l", 2, "{\"state\":{\"value\":\"50%\"}}");
    (void)widget(t, "e", 2, "{\"state\":{\"value\":null}}");
    (void)widget(t, "bar", 2, "{\"state\":{\"value\":5.0,\"description\":\"epoch\"}}");
    ok(comms_text(t, box, &out) == 0 && out.n < 1000 && says(&out, "50% epoch 5"),
       "a box is the texts of what is in it, and ends although it holds itself");
    buf_clear(&out);
    box = widget(t, "tqdm", 2,
                 "{\"state\":{\"children\":[\"IPY_MODEL_l\",\"IPY_MODEL_p\",\"IPY_MODEL_r\"]}}");
    (void)widget(t, "p", 2, "{\"state\":{\"value\":5.0,\"bar_style\":\"\"}}");
    (void)widget(t, "r", 2, "{\"state\":{\"value\":\"[0:01&lt;0:02 &x;]\"}}");
    ok(comms_text(t, box, &out) == 0 && says(&out, "50% [0:01<0:02 &x;]"),
       "a bar beside texts has no number; what HTML escapes is plain");
    buf_clear(&out);
    box = widget(t, "out", 2, "{\"state\":{\"outputs\":[{\"text\":\"a\\nb\\n\"},{\"data\":{}}]}}");
    ok(comms_text(t, box, &out) == 0 && says(&out, "a\nb"), "an Output is what it has captured");
    buf_clear(&out);
    (void)widget(t, "go", 2, "{\"state\":{\"description\":\"Go\"}}");
    box = widget(t, "pair", 2,
                 "{\"state\":{\"children\":[\"IPY_MODEL_go\",\"IPY_MODEL_l\",\"IPY_MODEL_go\"]}}");
    ok(comms_text(t, box, &out) == 0 && buf_add(&out, "", 1) == 0 &&
           strcmp(out.p, "Go 50% Go") == 0,
       "a widget without a value is its description");
    buf_clear(&out);
    box = widget(t, "many", 2,
                 "{\"state\":{\"children\":[\"IPY_MODEL_l\",\"IPY_MODEL_many\",\"IPY_MODEL_many\","
                 "\"IPY_MODEL_many\",\"IPY_MODEL_many\",\"IPY_MODEL_many\",\"IPY_MODEL_many\"]}}");
    ok(comms_text(t, box, &out) == 0 && out.n > 3 && out.n < 4096 && says(&out, "50% 50%"),
       "a tree that is wide everywhere is cut");
    buf_release(&out);
    comms_destroy(t);
}

static void odd_ids(void)
{
    struct comm_table *t = comms_create();

    ok(!comms_open(t, slice_of("a\0b", 3), slice_text("x"), 2), "an id with a NUL is refused");
    ok(comms_open(t, slice_of("", 0), slice_text("x"), 2) && comms_find(t, slice_text("")),
       "an empty one is an id");
    comms_destroy(t);
}

int main(void)
{
    odd_ids();
    table();
    copies();
    too_much();
    merging();
    texts();
    return plan_done();
}
