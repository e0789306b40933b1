/* zap.h - ZeroMQ's questions who may connect (ZAP, RFC 27) about all CURVE sockets of a context. An
 * I/O thread of ZeroMQ's asks over an inproc socket before it admits a connection; that one waits
 * for the answer, others go on. */
#ifndef BASE_ZAP_H
#define BASE_ZAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop/loop.h"
#include "base/slice.h"

#define ZAP_KEY_SIZE  32u
#define ZAP_FIELD_MAX 255u

/* What is answered. Who may come later isn't told so: it dials anew once it has given its handshake
 * up. */
enum zap_status { ZAP_YES = 200, ZAP_LATER = 300, ZAP_NO = 400 };

struct zap_field {
    uint8_t n;
    char byte[ZAP_FIELD_MAX];
};

/* One question. It may be copied, and answered later. The fields are read with the functions
 * below. */
struct zap_question {
    struct zap_field route, request, domain;
    bool good; /* RFC 27's frames, all of them, none too long; by CURVE; key is one */
    unsigned char key[ZAP_KEY_SIZE];
};

struct zap;
/* Is to answer every question once, now or later: zap_answer(). */
typedef void (*zap_f)(struct zap *z, const struct zap_question *q, void *arg);

/* Before any socket of the context is bound as a CURVE server; a context has one of these. NULL:
 * *err says why. */
struct zap *zap_open(struct loop *loop, void *context, zap_f f, void *arg, struct err *err);
void zap_close(struct zap *z); /* NULL is fine. What is not answered by then never will be */
/* user: becomes the connection's User-Id with ZAP_YES; "" else. */
void zap_answer(struct zap *z, const struct zap_question *q, enum zap_status status,
                const char *user);

/* The ZAP domain of the socket that somebody connects to. Borrowed from q. */
struct slice zap_domain(const struct zap_question *q);
/* The public key of who connects, ZAP_KEY_SIZE bytes; it has proven that it has the secret one.
 * NULL: another mechanism than CURVE, or no question as RFC 27 has it. Whoever it is, it is not to
 * be let in. Borrowed from q. */
const unsigned char *zap_key(const struct zap_question *q);

#endif
