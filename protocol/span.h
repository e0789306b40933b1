/* span.h - cellspan's own messages, between kernel, agents and workers: structs <-> bytes.
 * README.md is the specification. Pure: touches only the bytes it is given. One table of kinds and
 * fields (span_table.c) drives encode, decode, the names that Python sees, the log's dump, the
 * fuzzer's dictionary and the test against README.md. */
#ifndef PROTOCOL_SPAN_H
#define PROTOCOL_SPAN_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define SPAN_VERSION     2u
#define SPAN_FIELDS_MAX  10u
#define SPAN_HEADER_SIZE 32u
#define SPAN_ITEMS_MAX   65536u /* of a list */
/* bytes of a blob in one CHUNK; smaller ones wake more threads for as many bytes */
#define SPAN_CHUNK_MAX (1u << 20)
/* bytes of a blob that may be on the way to one taker unanswered */
#define SPAN_CHUNK_WINDOW (UINT64_C(8) << 20)
#define SPAN_WORKER_NONE  0u /* the agent itself */
/* the notebook's own interpreter; ranks are numbered from 2 by the kernel */
#define SPAN_WORKER_HOME 1u

enum span_kind {
    /* between kernel and agent */
    SPAN_HELLO = 1,
    SPAN_WELCOME,
    SPAN_REFUSE,
    SPAN_START,
    SPAN_EXITED,
    SPAN_KILL,
    SPAN_SEVER,
    SPAN_STACKS,
    SPAN_STACK,
    SPAN_DROP,
    SPAN_CREDIT,
    SPAN_LINES,
    SPAN_PORT,
    SPAN_WARM,
    SPAN_QUIT,
    SPAN_BEAT,
    SPAN_OPEN,
    SPAN_OPENED,
    SPAN_DIAL,
    SPAN_DIALED,
    SPAN_EXPECT,
    SPAN_SHIP,
    SPAN_CHUNK,
    SPAN_TAKEN,
    SPAN_HELD,
    SPAN_ENDS,
    SPAN_GPUS,
    SPAN_GAUGES,
    SPAN_LOGS,
    /* to a worker; the agent passes them on unread */
    SPAN_REQUEST = 32,
    SPAN_CAPTURE,
    SPAN_PACK,
    SPAN_BIND,
    SPAN_RUN,
    SPAN_FETCH,
    SPAN_INPUT_REPLY,
    SPAN_INTERRUPT,
    SPAN_RETURN,
    SPAN_EXIT,
    SPAN_CUT,
    SPAN_SYNCED,
    SPAN_PROBE,
    SPAN_FOLLOW,
    SPAN_TOLD,
    SPAN_NEWER,
    /* from a worker */
    SPAN_READY = 64,
    SPAN_REPLY,
    SPAN_PUBLISH,
    SPAN_CAPTURED,
    SPAN_PACKED,
    SPAN_DONE,
    SPAN_INPUT,
    SPAN_CALL,
    SPAN_SYNC,
    SPAN_PROBED,
    SPAN_ASK,
    SPAN_OWNER,
    SPAN_AWAITS,
};

enum span_type { SPAN_U64, SPAN_STR, SPAN_BYTES, SPAN_LIST };

struct span_field {
    const char *name;
    enum span_type type;
    size_t max; /* the most bytes it may hold; of a list: of all its items together */
};

struct span_info {
    enum span_kind kind;
    const char *name; /* as README.md and Python write it: "RUN" */
    unsigned n;       /* fields used */
    struct span_field field[SPAN_FIELDS_MAX];
};

struct span_list {
    /* owned by the span that was decoded; borrowed in one that is to be encoded */
    struct slice *item;
    size_t n;
};

union span_value {
    uint64_t u64;
    struct slice s;
    struct span_list list;
};

struct span {
    enum span_kind kind;
    uint32_t worker;    /* who sent it, or the only one it is for */
    uint64_t cell;      /* the request that it belongs to; 0: none */
    uint64_t blob;      /* the large bytes that travel beside it; 0: none */
    uint64_t blob_size; /* bytes */
    /* in the table's order; see the F_ enumerators in span_fields.h */
    union span_value v[SPAN_FIELDS_MAX];
};

const struct span_info *span_info(unsigned kind);          /* NULL: no such kind */
const struct span_info *span_info_at(unsigned index);      /* every row in turn; NULL at the end */
const struct span_info *span_info_named(const char *name); /* NULL: no such name */

/* Appends the message. -1: a field is longer than its max, a string is not UTF-8 (see
 * utf8_add_clean), or memory is out; *out is then as it was. */
MUST_USE int span_encode(const struct span *m, struct buf *out, struct err *err);
/* As if the last field had n bytes, which the caller writes to where it returns, at the end of
 * *out: so they need not be anywhere else before. For kinds whose last field is bytes; what m has
 * there is not looked at. NULL: as -1 above. */
char *span_encode_room(const struct span *m, size_t n, struct buf *out, struct err *err);

/* Strings, bytes and list items borrow from p. span_release frees the lists' arrays. On failure
 * nothing is to be released. Refuses another version (in words that say which side is older),
 * unknown kinds, lengths over max, trailing bytes, and strings that are not UTF-8. */
MUST_USE int span_decode(struct span *m, const void *p, size_t n, struct err *err);
void span_release(struct span *m);

/* The version that the bytes claim to have, whatever follows; 0: there are none. HELLO and REFUSE
 * have the same form in every version, so that two sides that differ can say so to one another:
 * span_encode_as writes them as that version's. */
unsigned span_version(const void *p, size_t n);
MUST_USE int span_encode_as(unsigned version, const struct span *m, struct buf *out,
                            struct err *err);

/* Only the header, for routers: kind, worker, cell, blob. */
MUST_USE int span_peek(struct span *m, const void *p, size_t n, struct err *err);
/* One line for the log: kind, numbers, and the sizes of the rest; never what users wrote. */
MUST_USE int span_describe(const struct span *m, struct buf *out);

/* Overwrites the sender in encoded bytes (n >= SPAN_HEADER_SIZE), so that a worker can't speak for
 * another. */
void span_stamp(void *p, uint32_t worker);

#endif
