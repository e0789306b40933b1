/* SPDX-License-Identifier: BSD-3-Clause */
/* comms.h - the comms of home and ranks: which process each belongs to, and a copy of the last
 * state of widgets, so that a page gets the state while the process is busy. Updates that come too
 * fast for a page wait here and become one. Pure. */
#ifndef KERNEL_COMMS_COMMS_H
#define KERNEL_COMMS_COMMS_H

#include <jansson.h>

#include "base/buf.h"

/* ipywidgets' targets: of a widget, and of the comm by which a page asks for the state of all. */
#define COMM_WIDGET  "jupyter.widget"
#define COMM_CONTROL "jupyter.widget.control"
/* bytes of all copies; a widget for which there is no room must be asked */
#define COMM_COPIES_MAX ((size_t)64 << 20)
/* Jupyter's server begins to drop messages at 1,000 a second. So at most COMM_SLOT_MAX updates of
 * widgets leave in a slot of COMM_SLOT_NS; the others wait for the next slot. */
#define COMM_SLOT_NS  UINT64_C(100000000)
#define COMM_SLOT_MAX 40u

/* ---- widget_state.c ---- */
/* Values of a widget by name, and binary values, which lie beside them with their path. */
struct widget_state {
    json_t *values; /* owned: an object; NULL: none */
    struct widget_bytes {
        json_t *path; /* owned: an array; the first item is the value's name */
        char *p;      /* owned, n bytes */
        size_t n;
    } *bytes; /* owned, n of them */
    size_t n, room;
    size_t size; /* of all, in bytes, roughly */
};

/* Sets the values of `data`, the data of a comm_open or of an update: later ones win. -1: memory is
 * out, or data is no state; then *s is released. */
MUST_USE int widget_state_set(struct widget_state *s, const json_t *data,
                              const struct slice *buffers, size_t n);
void widget_state_release(struct widget_state *s); /* leaves an empty state */

/* ---- comms.c ---- */
struct page_comm {
    char *id, *target; /* owned */
    uint32_t worker;   /* 0: the kernel answers it itself */
    bool copied;       /* `state` is the widget's whole state */
    json_t *shown;     /* owned: the ids of the displays that show it; or NULL */
    struct widget_state state;
    bool waits;
    void *parent; /* owned: the request of the update that waits; or NULL */
    void (*release)(void *parent);
    struct widget_state waiting;     /* the update that waits */
    struct page_comm *next, *before; /* in the order in which they were opened */
    struct page_comm *same_hash, *next_waiting;
};

struct comm_table;

struct comm_table *comms_create(void);    /* NULL: memory is out */
void comms_destroy(struct comm_table *t); /* NULL is fine */
/* A message for a rank is dropped now. Is the user to be told? Only if the last line about it was
 * COMM_DROPPED_NS before. */
#define COMM_DROPPED_NS UINT64_C(5000000000)
bool comms_tell_dropped(struct comm_table *t, uint64_t now_ns);

/* A new comm; an older one with this id is gone. NULL: memory is out. */
struct page_comm *comms_open(struct comm_table *t, struct slice id, struct slice target,
                             uint32_t worker);
struct page_comm *comms_find(const struct comm_table *t, struct slice id); /* NULL: there is none */
void comms_close(struct comm_table *t, struct page_comm *c);
/* The first comm of this worker after `after` (NULL: of all); NULL: there is none. */
struct page_comm *comms_of(const struct comm_table *t, uint32_t worker,
                           const struct page_comm *after);
size_t comms_count(const struct comm_table *t);
/* `comms` of a comm_info_reply. target: only these, "" for all. NULL: memory is out */
json_t *comms_info(const struct comm_table *t, struct slice target);

/* Adds what a message of a widget sets to its copy. If there is no room the widget has no copy any
 * more. opens: `data` is the whole state. */
void comms_copy(struct comm_table *t, struct page_comm *c, const json_t *data,
                const struct slice *buffers, size_t n, bool opens);
/* Writes the content of the update_states message for comm `id`, and its buffers. The caller frees
 * *list; its items point into the copies. Widgets without a copy are not in it. -1: memory is
 * out. */
MUST_USE int comms_states(const struct comm_table *t, struct slice id, struct buf *content,
                          struct slice **list, size_t *n);
/* The first widget without a copy after `after` (NULL: of all); NULL: there is none. */
struct page_comm *comms_lacking(const struct comm_table *t, const struct page_comm *after);

/* ---- text.c ---- */
/* Appends what a widget shows, as text: its value, or the texts of what is in it. */
MUST_USE int comms_text(const struct comm_table *t, const struct page_comm *c, struct buf *out);

/* ---- updates.c ---- */
/* May an update leave now? Counts it then. */
bool comms_may_send(struct comm_table *t, uint64_t now_ns);
/* false: the update must not be merged with the queued one, because it would replace a value by
 * null before the page has seen it. (Some widgets, such as plotly's, set a value as a command and
 * reset it to null at once.) */
bool comms_may_merge(const struct page_comm *c, const json_t *data);
/* Queues an update. If the comm already has one in the queue, they are merged. -1: memory is out;
 * the comm has no update in the queue any more. */
MUST_USE int comms_wait(struct comm_table *t, struct page_comm *c, const json_t *data,
                        const struct slice *buffers, size_t n);
bool comms_waits(const struct comm_table *t); /* does any update wait? */
/* The first comm with an update that waits, of this worker (0: of any); NULL: there is none. */
struct page_comm *comms_waiting(const struct comm_table *t, uint32_t worker);
/* Takes the queued update out: its content and buffers. The buffers point into *s; the caller
 * releases *s and frees *list. -1: memory is out. */
MUST_USE int comms_take(struct comm_table *t, struct page_comm *c, struct buf *content,
                        struct widget_state *s, struct slice **list);
void comms_give_up(struct comm_table *t, struct page_comm *c); /* the update that waits is lost */
uint64_t comms_slot_ns(const struct comm_table *t);            /* the next slot */
uint64_t comms_due_ns(const struct comm_table *t); /* the next slot; UINT64_MAX: no update waits */

#endif
