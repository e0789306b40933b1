/* SPDX-License-Identifier: BSD-3-Clause */
/* zap.h - decides who may connect to the CURVE sockets of a ZeroMQ context (ZAP, RFC 27). Before it
 * admits a connection, a ZeroMQ I/O thread sends a question over an inproc socket. Only that
 * connection waits for the answer. */
#ifndef BASE_ZAP_H
#define BASE_ZAP_H

#include "base/loop/loop.h"
#include "base/slice.h"

#define ZAP_KEY_SIZE  32u
#define ZAP_FIELD_MAX 255u

/* The answer. A peer is not told ZAP_LATER: it connects again after its handshake timed out. */
enum zap_status { ZAP_YES = 200, ZAP_LATER = 300, ZAP_NO = 400 };

struct zap_field {
    uint8_t n;
    char byte[ZAP_FIELD_MAX];
};

/* One question. It may be copied and answered later. Read it with the functions below. */
struct zap_question {
    struct zap_field route, request, domain;
    bool good; /* all frames of RFC 27, none too long, mechanism CURVE, key is set */
    unsigned char key[ZAP_KEY_SIZE];
};

struct zap;
/* Must answer every question once with zap_answer(), now or later. */
typedef void (*zap_f)(struct zap *z, const struct zap_question *q, void *arg);

/* Call it before any socket of the context is bound as a CURVE server, once for each context. NULL:
 * *err says why. */
struct zap *zap_open(struct loop *loop, void *context, zap_f f, void *arg, struct err *err);
void zap_close(struct zap *z); /* NULL is fine; open questions are never answered */
/* user: with ZAP_YES, the User-Id of the connection; otherwise "". */
void zap_answer(struct zap *z, const struct zap_question *q, enum zap_status status,
                const char *user);

/* The ZAP domain of the socket that the peer connects to. Borrowed from q. */
struct slice zap_domain(const struct zap_question *q);
/* The peer's public key, ZAP_KEY_SIZE bytes; the peer has proven that it has the secret key.
 * Borrowed from q. NULL: the mechanism is not CURVE, or the question is not valid: refuse it. */
const unsigned char *zap_key(const struct zap_question *q);

#endif
