#include "kernel/jupyter/private.h"

#include <sodium.h>
#include <stdlib.h>
#include <zmq.h>

#include "base/log.h"
#include "base/loop/zap.h"

struct owner {
    struct zap *zap;
    unsigned char key[ZAP_KEY_SIZE]; /* the client's public key that is admitted */
    unsigned long refused;
};

static void asked(struct zap *zap, const struct zap_question *q, void *arg)
{
    struct owner *o = arg;
    const unsigned char *const key = zap_key(q);
    const bool good = key && (slice_is(zap_domain(q), DOMAIN_ANYBODY) ||
                              sodium_memcmp(key, o->key, ZAP_KEY_SIZE) == 0);

    if (!good && o->refused++ == 0)
        log_warn(
            "jupyter",
            "a client with another key than the connection file's was turned away (more are only "
            "counted)");
    zap_answer(zap, q, good ? ZAP_YES : ZAP_NO, "");
}

struct owner *owner_create(struct loop *loop, void *context, const struct connection *c,
                           struct err *err)
{
    struct owner *o = calloc(1, sizeof *o);

    if (!o)
        return err_null(err, "out of memory");
    if (!zmq_z85_decode(o->key, c->public_key))
        (void)err_set(err, "connection file %s: \"curve_publickey\" is not Z85", c->file);
    else if ((o->zap = zap_open(loop, context, asked, o, err)))
        return o;
    owner_destroy(o);
    return NULL;
}

void owner_destroy(struct owner *o)
{
    if (!o)
        return;
    if (o->refused)
        log_info("jupyter",
                 "turned away in all: %lu clients with another key than the connection file's",
                 o->refused);
    zap_close(o->zap);
    free(o);
}
