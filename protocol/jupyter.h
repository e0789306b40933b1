/* SPDX-License-Identifier: BSD-3-Clause */
/* jupyter.h - encodes and decodes Jupyter's messages (messaging protocol 5.5). Pure: touches only
 * the bytes it is given.
 *
 *   frames = *identity "<IDS|MSG>" signature header parent_header metadata content *buffer
 *
 * The signature is checked over the raw bytes before any JSON is parsed. The same functions serve a
 * kernel and a client, which differ only in the types of their messages. */
#ifndef PROTOCOL_JUPYTER_H
#define PROTOCOL_JUPYTER_H

#include <jansson.h>
#include <sodium.h>

#include "base/buf.h"

/* ---- seen_signatures.c ---- */
/* Remembers the signatures of messages, so that a replayed message can be refused. Pure. There are
 * two sets: when the young one is full it replaces the old one, which is freed. So between `limit /
 * 2` and `limit` of the latest signatures are known, and memory is bounded. */

#define SIGNATURE_KEY 16u /* bytes of a signature that are kept: 128 bits of an HMAC */

struct signature_set {
    /* owned; an all-zero slot is free. Open addressing, at most half full */
    unsigned char (*slot)[SIGNATURE_KEY];
    size_t slots; /* a power of two, or 0 */
    size_t used;
};

struct seen_signatures {
    struct signature_set young, old;
    size_t limit; /* the most signatures that are remembered */
};

void seen_signatures_init(struct seen_signatures *h, size_t limit);
void seen_signatures_release(struct seen_signatures *h);

/* 1: seen before; 0: new, now remembered; -1: memory is out. signature: 64 hexadecimal digits. */
int seen_signatures_add(struct seen_signatures *h, struct slice signature);

/* ---- hmac.c ---- */
/* HMAC-SHA256 as Jupyter signs its messages: over the four JSON frames, in hexadecimal. Pure. */

#define HMAC_TEXT_SIZE 65u /* 64 lower-case digits and a NUL */

struct hmac {
    crypto_auth_hmacsha256_state keyed; /* the state after the key; copied for each message */
    bool signs;                         /* false: the key is empty, nothing is signed or checked */
};

/* The key may have any length and need not outlive the call. -1: libsodium does not start. */
MUST_USE int hmac_init(struct hmac *h, struct slice key, struct err *err);
void hmac_release(struct hmac *h); /* wipes the key */

/* Writes the signature of the n concatenated parts; "" when the key is empty. */
void hmac_sign(const struct hmac *h, const struct slice *part, size_t n, char text[HMAC_TEXT_SIZE]);
/* Is the signature right? Compares in constant time. Always true when the key is empty. */
bool hmac_check(const struct hmac *h, const struct slice *part, size_t n, struct slice signature);

#define JUPYTER_VERSION   "5.5"
#define JUPYTER_DELIMITER "<IDS|MSG>"
#define JUPYTER_SCHEME    "hmac-sha256" /* the only signature_scheme that we support */

#define JUPYTER_FRAMES_MAX   4096u       /* frames of one message */
#define JUPYTER_HEADER_MAX   (64u << 10) /* bytes; header and parent_header each */
#define JUPYTER_METADATA_MAX (16u << 20)
#define JUPYTER_CONTENT_MAX  (64u << 20)
#define JUPYTER_BUFFERS_MAX  (256u << 20) /* all buffers together */
#define JUPYTER_DEPTH_MAX    512u         /* nesting of arrays and objects */
#define JUPYTER_SEEN_MAX     65536u       /* signatures remembered */

enum jupyter_part {
    JUPYTER_HEADER,
    JUPYTER_PARENT,
    JUPYTER_METADATA,
    JUPYTER_CONTENT,
    JUPYTER_PARTS
};

enum jupyter_fault {
    JUPYTER_FINE,
    JUPYTER_NO_DELIMITER,
    JUPYTER_TOO_FEW,   /* frames */
    JUPYTER_TOO_MANY,  /* frames */
    JUPYTER_TOO_LARGE, /* a frame */
    JUPYTER_UNSIGNED,
    JUPYTER_FORGED, /* signed with another key, or changed on the way */
    JUPYTER_REPLAYED,
    JUPYTER_NOT_JSON,  /* or nested too deeply, or not objects */
    JUPYTER_NO_HEADER, /* no msg_type or msg_id in it */
    JUPYTER_NO_MEMORY,
    JUPYTER_FAULTS /* how many there are */
};

/* A text that completes "a message …", such as "has a wrong signature"; also for JUPYTER_FINE. */
const char *jupyter_fault_text(enum jupyter_fault fault);

/* State of one end of a connection: the key, the signatures seen, the headers' fixed parts. */
struct jupyter_session {
    struct hmac key;
    struct seen_signatures seen;
    char *id;          /* owned; the session id in the headers */
    struct buf who;    /* `,"session":"…","username":"…"` */
    struct buf header; /* of the message that was encoded last */
    char signature[HMAC_TEXT_SIZE];
    uint64_t count; /* messages encoded: makes msg_id unique, together with the id */
};

/* id: a new UUID. On failure nothing needs to be released. */
MUST_USE int jupyter_session_init(struct jupyter_session *s, const char *id, const char *username,
                                  struct slice key, struct err *err);
void jupyter_session_release(struct jupyter_session *s);

/* A decoded message. All pointers borrow from the frames, except the two JSON objects and parts
 * that were repaired. */
struct jupyter_message {
    const struct slice *identity;
    size_t identities;
    /* the texts, as UTF-8; parent_header and metadata are not parsed and may be no JSON */
    struct slice part[JUPYTER_PARTS];
    struct buf repaired[JUPYTER_PARTS]; /* owned: what a part refers to that came as no UTF-8 */
    const struct slice *buffer;
    size_t buffers;
    json_t *header;   /* owned; an object */
    json_t *content;  /* owned; an object */
    const char *type; /* of the header: msg_type, msg_id */
    const char *id;
};

/* If the result is not JUPYTER_FINE, release nothing and don't read *m. */
MUST_USE enum jupyter_fault jupyter_decode(struct jupyter_session *s, const struct slice *frame,
                                           size_t n, struct jupyter_message *m);
void jupyter_message_release(struct jupyter_message *m);

enum {
    JUPYTER_OUT_DELIMITER,
    JUPYTER_OUT_SIGNATURE,
    JUPYTER_OUT_HEADER,
    JUPYTER_OUT_PARENT,
    JUPYTER_OUT_METADATA,
    JUPYTER_OUT_CONTENT,
    JUPYTER_OUT_FRAMES
};

/* Makes the frames from the delimiter to the content, in order. The caller sends identities before
 * them and buffers after them. They borrow from the arguments, and from s until the next call.
 * parent: the raw header of the parent; empty stands for "{}". metadata: a JSON object as text;
 * empty stands for "{}". date: ISO 8601. type may hold any UTF-8. */
MUST_USE int jupyter_encode(struct jupyter_session *s, const char *type, const char *date,
                            struct slice parent, struct slice metadata, struct slice content,
                            struct slice out[JUPYTER_OUT_FRAMES], struct err *err);

/* Appends text as a JSON string, quotes included. text is UTF-8. -1: memory is out. */
MUST_USE int jupyter_quote(struct buf *out, struct slice text);

/* Appends the content of display_data or update_display_data: text as text/plain, html as
 * text/html. One whose p is NULL is left out. id: the display_id; NULL: the display is never
 * updated. -1: memory is out, *out is unchanged. */
MUST_USE int jupyter_display(struct buf *out, struct slice text, struct slice html, const char *id);

/* Parses a JSON object, which the caller owns. NULL: not an object, or nested too deeply. */
json_t *jupyter_object(struct slice text);

#endif
