/* SPDX-License-Identifier: BSD-3-Clause */
/* sockets.c - opens the ZeroMQ sockets of the five channels (declared in private.h). */
#include "kernel/jupyter/private.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"
#include "base/loop/zap.h"

#define IOPUB_HWM       0 /* no limit here: iopub.c has one for each subscriber */
#define ROUTER_RECV_HWM 20000
#define ROUTER_SEND_HWM 65536
/* bytes of a frame; if one is larger, libzmq closes the connection without reading it */
#define LARGEST       (INT64_C(512) << 20)
#define LARGEST_SMALL (INT64_C(1) << 20)

/* ---- who may connect if the channels are encrypted ---- */

/* CURVE alone would admit every client that knows the server's public key. The ZAP domain OWNER
 * admits only the key of the connection file, ANYBODY any key. That is for the heartbeat: there
 * clients use temporary keys, and nothing secret is sent. */
#define DOMAIN_OWNER   "owner"
#define DOMAIN_ANYBODY "anybody"

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

/* NULL is fine. */
static void channels_zap_destroy(struct channels_zap *z)
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

/* Answers the ZAP questions of the context's sockets, from the loop. */
static struct channels_zap *channels_zap_create(struct loop *loop, void *context,
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

/* ---- sockets ---- */

struct socket_option {
    int name, value;
};

static int set_all(void *socket, const struct socket_option *o, size_t n, int64_t largest)
{
    for (size_t i = 0; i < n; i++)
        if (loop_zmq_set(socket, o[i].name, o[i].value) < 0)
            return -1;
    return zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
}

/* HANDOVER: a client that connects again with its old identity replaces its lost connection.
 * MANUAL: every subscription is reported, and iopub.c decides which messages it gets. */
static int options_set(void *socket, enum port port)
{
    static const struct socket_option router[] = {
        { ZMQ_ROUTER_HANDOVER, 1 },
        { ZMQ_RCVHWM, ROUTER_RECV_HWM },
        { ZMQ_SNDHWM, ROUTER_SEND_HWM },
        { ZMQ_LINGER, 0 },
    };
    static const struct socket_option xpub[] = {
        { ZMQ_XPUB_NODROP, 1 },
        { ZMQ_XPUB_MANUAL, 1 },
        { ZMQ_SNDHWM, IOPUB_HWM },
        { ZMQ_LINGER, 0 },
    };
    static const struct socket_option echo[] = { { ZMQ_ROUTER_HANDOVER, 1 }, { ZMQ_LINGER, 0 } };

    switch (port) {
    case PORT_IOPUB:
        return set_all(socket, xpub, sizeof xpub / sizeof *xpub, LARGEST_SMALL);
    case PORT_HEARTBEAT:
        return set_all(socket, echo, sizeof echo / sizeof *echo, LARGEST_SMALL);
    case PORT_STDIN: /* input() must not wait for a client that is gone */
        if (loop_zmq_set(socket, ZMQ_ROUTER_MANDATORY, 1) < 0)
            return -1;
        return set_all(socket, router, sizeof router / sizeof *router, LARGEST);
    default:
        return set_all(socket, router, sizeof router / sizeof *router, LARGEST);
    }
}

static int curve_set(void *socket, const struct connection *c, enum port port)
{
    const char *domain = port == PORT_HEARTBEAT ? DOMAIN_ANYBODY : DOMAIN_OWNER;

    if (zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain)) < 0 ||
        loop_zmq_set(socket, ZMQ_CURVE_SERVER, 1) < 0)
        return -1;
    return zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, c->secret_key, strlen(c->secret_key) + 1);
}

static const char *advice(int why)
{
    switch (why) {
    case EADDRINUSE:
        return "; start the kernel again so that Jupyter chooses another port, or end the program that has it";
    case EACCES:
        return "; choose a port above 1023, or a folder that you may write to";
    case ENAMETOOLONG:
        return "; a socket's path has at most 107 bytes: set XDG_RUNTIME_DIR or JUPYTER_RUNTIME_DIR to a shorter one";
    case ENODEV:
    case EADDRNOTAVAIL:
        return "; \"ip\" must be an address of this machine, such as 127.0.0.1";
    default:
        return "";
    }
}

static int bind_one(struct sockets *s, const struct connection *c, enum port port, struct err *err)
{
    static const int type[PORTS] = { ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_XPUB, ZMQ_ROUTER };
    char endpoint[CONNECTION_ENDPOINT_SIZE];
    void *socket = zmq_socket(s->context, type[port]);

    s->socket[port] = socket;
    if (!socket || options_set(socket, port) < 0)
        return err_set(err, "%s: ZeroMQ: %s", connection_port_name(port), zmq_strerror(errno));
    if (c->curve && curve_set(socket, c, port) < 0)
        return err_set(err, "connection file %s: the CURVE keys are not usable: %s", c->file,
                       zmq_strerror(errno));
    if (connection_endpoint(c, port, endpoint, err) < 0)
        return -1;
    if (!c->ipc && strchr(endpoint, '[') && loop_zmq_set(socket, ZMQ_IPV6, 1) < 0)
        return err_set(err, "%s: ZeroMQ: %s", endpoint, zmq_strerror(errno));
    if (zmq_bind(socket, endpoint) < 0)
        return err_set(err, "%s %u of connection file %s: can't listen at %s: %s%s",
                       connection_port_name(port), c->port[port], c->file, endpoint,
                       zmq_strerror(errno), advice(errno));
    return 0;
}

int sockets_open(struct sockets *s, struct loop *loop, const struct connection *c, struct err *err)
{
    memset(s, 0, sizeof *s);
    if (c->curve && !zmq_has("curve"))
        return err_set(
            err,
            "connection file %s asks for encryption, but this libzmq has no CURVE: install one that was "
            "built with libsodium, or set KernelManager.transport_encryption to \"disabled\"",
            c->file);
    if (!(s->context = zmq_ctx_new()))
        return err_set(err, "ZeroMQ: %s", zmq_strerror(errno));
    if (zmq_ctx_set(s->context, ZMQ_IO_THREADS, 1) < 0 ||
        zmq_ctx_set(s->context, ZMQ_MAX_SOCKETS, 16) < 0) {
        err_set(err, "ZeroMQ: %s", zmq_strerror(errno));
        goto undo;
    }
    /* Before any bind: without it, every client that connects would be admitted. */
    if (c->curve && !(s->zap = channels_zap_create(loop, s->context, c, err)))
        goto undo;
    for (unsigned port = 0; port < PORTS; port++)
        if (bind_one(s, c, (enum port)port, err) < 0)
            goto undo;
    s->heartbeat = heartbeat_start(s->socket[PORT_HEARTBEAT],
                                   err); /* takes the socket's ownership */
    s->socket[PORT_HEARTBEAT] = NULL;
    if (s->heartbeat)
        return 0;
undo:
    sockets_close(s, 0);
    return -1;
}

/* The order matters. No option can be set after the context is shut down. Only that ends the
 * heartbeat's thread. And zmq_ctx_term waits until every socket is closed and sent messages have
 * left. */
void sockets_close(struct sockets *s, int linger_ms)
{
    channels_zap_destroy(s->zap);
    for (unsigned port = 0; port < PORTS; port++)
        if (s->socket[port]) {
            (void)!loop_zmq_set(s->socket[port], ZMQ_LINGER, linger_ms);
            zmq_close(s->socket[port]);
        }
    if (s->context) {
        zmq_ctx_shutdown(s->context);
        heartbeat_join(s->heartbeat);
        while (zmq_ctx_term(s->context) < 0 && errno == EINTR)
            ;
    }
    memset(s, 0, sizeof *s);
}
