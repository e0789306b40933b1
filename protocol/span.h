/* SPDX-License-Identifier: BSD-3-Clause */
/* span.h - encodes and decodes cellspan's own messages, between kernel, agents and workers.
 * README.md is the specification. Pure: touches only the bytes it is given. Encoding, decoding, the
 * names in Python, the log, the fuzzer's dictionary and the test against README.md all use one
 * table of kinds and fields (span_table.c). */
#ifndef PROTOCOL_SPAN_H
#define PROTOCOL_SPAN_H

#include "base/buf.h"

#define SPAN_VERSION     2u
#define SPAN_FIELDS_MAX  13u
#define SPAN_HEADER_SIZE 32u
#define SPAN_ITEMS_MAX   65536u /* of a list */
/* bytes of a blob in one CHUNK; smaller chunks would wake threads more often */
#define SPAN_CHUNK_MAX (1u << 20)
/* bytes of a blob that may be unacknowledged by one receiver */
#define SPAN_CHUNK_WINDOW (UINT64_C(8) << 20)
/* so begins a STACK of a worker whose process is stopped */
#define SPAN_STACK_STOPPED "(it is suspended"
#define SPAN_WORKER_NONE   0u /* the agent itself */
/* PORT answers with a port of this range, in which a firewall may let ranks meet. It is below the
 * range that Linux gives to outgoing connections. */
#define PORT_FIRST 20000u
#define PORT_LAST  29999u
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
    SPAN_CUT_RANKS,
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
    SPAN_CHUNK_ACK,
    SPAN_STORED,
    SPAN_CONNECTIONS,
    SPAN_GPUS,
    SPAN_GAUGES,
    SPAN_LOGS,
    SPAN_NOTICE,
    SPAN_RESUME,
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
    SPAN_CUT_SOCKETS,
    SPAN_SYNCED,
    SPAN_PROBE,
    SPAN_FOLLOW,
    SPAN_ASK_REPLY,
    SPAN_NEWER,
    SPAN_HANDED,
    SPAN_COMM,
    SPAN_DEBUG,
    SPAN_SUBSHELL,
    SPAN_FOUND,
    SPAN_COUNT,
    SPAN_MEET,
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
    SPAN_OUTPUT_PARENT,
    SPAN_AWAITS,
    SPAN_HAND,
    SPAN_DEBUGGED,
    SPAN_FIND,
    SPAN_MET,
    /* between kernel and agent; the numbers before SPAN_REQUEST are taken */
    SPAN_PARK = 96,
};

/* README.md's column "way": who sends a message to whom. A kind may have several. */
enum span_way {
    SPAN_KERNEL_TO_AGENT = 1,
    SPAN_AGENT_TO_KERNEL = 2,
    SPAN_AGENT_TO_AGENT = 4,
    SPAN_KERNEL_TO_WORKER = 8,  /* the agent passes it on unread */
    SPAN_WORKER_TO_KERNEL = 16, /* likewise */
    SPAN_AGENT_TO_WORKER = 32,
    SPAN_WORKER_TO_AGENT = 64,
};

/* Which thread of a worker takes a message. */
enum span_thread {
    SPAN_THREAD_NONE,    /* the kind is not for workers */
    SPAN_THREAD_MAIN,    /* in the order in which messages come */
    SPAN_THREAD_CALLING, /* the main thread, or another one that waits for the end of its call */
    SPAN_THREAD_ASKING,  /* the one that waits for this answer */
    SPAN_THREAD_READING, /* the one that reads the socket, at once, even if Python is stuck */
    SPAN_THREAD_DEBUGGING,
    SPAN_THREAD_SUBSHELLS,
    SPAN_THREAD_FINDING, /* of home: the one that answers; of a rank: each that has asked it */
};

enum span_type { SPAN_U64, SPAN_STR, SPAN_BYTES, SPAN_LIST };

struct span_field {
    const char *name;
    enum span_type type;
    size_t max; /* bytes; for a list: of all its items together */
};

struct span_info {
    enum span_kind kind;
    const char *name;        /* as README.md and Python write it: "RUN" */
    unsigned ways;           /* one or more of enum span_way */
    enum span_thread thread; /* of a worker */
    bool unnumbered;         /* see session.h: lost with its connection, or said anew */
    unsigned n;              /* fields used */
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
    uint32_t worker;    /* the sender, or the only receiver */
    uint64_t cell;      /* the request that it belongs to; 0: none */
    uint64_t blob;      /* number of the blob that goes with it; 0: none */
    uint64_t blob_size; /* bytes */
    /* in the table's order; see the F_ enumerators in span_fields.h */
    union span_value v[SPAN_FIELDS_MAX];
};

/* JAX's coordinator and torch's store may both listen, so they need two ports. This one is far from
 * those that other worlds are likely to have. 0: there is no port. */
static inline unsigned port_for_jax(unsigned port)
{
    const unsigned ports = PORT_LAST - PORT_FIRST + 1;

    return port < PORT_FIRST ? port : PORT_FIRST + (port - PORT_FIRST + ports / 2) % ports;
}

const struct span_info *span_info(unsigned kind);          /* NULL: no such kind */
const struct span_info *span_info_named(const char *name); /* NULL: no such name */

/* Appends the message. -1: a field is longer than its max, a string is not UTF-8 (see
 * utf8_add_clean), or memory is out; then *out is unchanged. */
MUST_USE int span_encode(const struct span *m, struct buf *out, struct err *err);
/* Encodes m with a last field of n uninitialised bytes, at the end of *out, and returns where they
 * are. The caller fills them in: this saves a copy. Only for kinds whose last field is bytes; m's
 * own last field is ignored. NULL: as -1 above. */
char *span_encode_room(const struct span *m, size_t n, struct buf *out, struct err *err);

/* Strings, bytes and list items borrow from p. span_release frees the lists' arrays. On failure
 * nothing needs to be released. Refuses another version (the error says which side is older),
 * unknown kinds, lengths over max, trailing bytes, and strings that are not UTF-8. */
MUST_USE int span_decode(struct span *m, const void *p, size_t n, struct err *err);
void span_release(struct span *m);

/* The version that the message states, without checking the rest; 0: it is empty. HELLO and REFUSE
 * have the same form in every version, so that two sides of different versions can refuse each
 * other: span_encode_as writes them with that version's number. */
unsigned span_version(const void *p, size_t n);
MUST_USE int span_encode_as(unsigned version, const struct span *m, struct buf *out,
                            struct err *err);

/* Decodes only the header: kind, worker, cell, blob. For those that only pass messages on. */
MUST_USE int span_peek(struct span *m, const void *p, size_t n, struct err *err);

/* Has the encoded message a number in its sender's session (session.h)? What is no message has. */
bool span_is_numbered(const void *p, size_t n);

/* Overwrites the sender in an encoded message (at least SPAN_HEADER_SIZE bytes), so that a worker
 * can't pose as another. */
void span_stamp(void *p, uint32_t worker);

/* Cuts the first entry off the addresses of HELLO, "IFNAME=IP,…", and returns its IP. */
struct slice span_cut_ip(struct slice *addresses);

#endif
