/* SPDX-License-Identifier: BSD-3-Clause */
/* channels_zap.c - decides who may connect to encrypted channels (declared in private.h). */
#include "kernel/jupyter/private.h"

#include <sodium.h>
#include <stdlib.h>
#include <zmq.h>

#include "base/log.h"
#include "base/loop/zap.h"

struct channels_zap {
    struct zap *zap;
    unsigned char key[ZAP_KEY_SIZE]; /* the client's public key that is admitted */
    unsigned long refused;
};

static void asked(struct zap *zap, const struct zap_question *q, void *arg)
{
    struct channels_zap *z = arg;
    const unsigned char *const key = zap_key(q);
    const bool good = key && (slice_is(zap_domain(q), DOMAIN_ANYBODY) ||
                              sodium_memcmp(key, z->key, ZAP_KEY_SIZE) == 0);

    if (!good && z->refused++ == 0)
        log_warn(
            "jupyter",
            "a client with another key than the connection file's was turned away (more are only "
            "counted)");
    zap_answer(zap, q, good ? ZAP_YES : ZAP_NO, "");
}

struct channels_zap *channels_zap_create(struct loop *loop, void *context,
                                         const struct connection *c, struct err *err)
{
    struct channels_zap *z = calloc(1, sizeof *z);

    if (!z)
        return err_null(err, "out of memory");
    if (!zmq_z85_decode(z->key, c->public_key))
        (void)err_set(err, "connection file %s: \"curve_publickey\" is not Z85", c->file);
    else if ((z->zap = zap_open(loop, context, asked, z, err)))
        return z;
    channels_zap_destroy(z);
    return NULL;
}

void channels_zap_destroy(struct channels_zap *z)
{
    if (!z)
        return;
    if (z->refused)
        log_info("jupyter",
                 "turned away in all: %lu clients with another key than the connection file's",
                 z->refused);
    zap_close(z->zap);
    free(z);
}
