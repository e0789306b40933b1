/* SPDX-License-Identifier: BSD-3-Clause */
/* agent_outside.c - what worker/agent/net calls outside, but for its loop (turns.c) and ZeroMQ
 * (sockets.c, messages.c): addresses, keys and random numbers. */
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/loop/message_stream.h"
#include "base/unix_socket.h"
#include "tests/unit/network/fleet.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/net/socket.h"

static struct fleet *fleet; /* one at a time */

void agent_outside_open(struct fleet *f)
{
    fleet = f;
}

/* ---- keys and random numbers: of the fleet's dice ---- */

void keys_create(struct keys *k)
{
    dice_bytes(&fleet->dice, k->public, KEY_SIZE);
    memset(k->secret, 0, KEY_SIZE);
}

void keys_wipe(struct keys *k)
{
    memset(k, 0, sizeof *k);
}

uint32_t randombytes_random(void);

uint32_t randombytes_random(void)
{
    return (uint32_t)dice_roll(&fleet->dice, UINT32_MAX);
}

/* ---- what no agent of another machine does ---- */

void address_text(const struct address *a, char text[static ADDRESS_TEXT_SIZE])
{
    (void)a;
    text[0] = '\0';
}

/* Endpoints have no names. */
int address_parse(struct slice endpoint, struct address *a, struct err *err)
{
    (void)endpoint, (void)err;
    *a = (struct address){ .size = 0 };
    return 0;
}

int address_list(const struct address *first, struct buf *out)
{
    (void)first, (void)out;
    return 0;
}

struct host_lookup *host_lookup_start(struct loop *loop, struct slice endpoint, host_lookup_f f,
                                      void *arg, struct err *err)
{
    (void)loop, (void)endpoint, (void)f, (void)arg;
    return err_null(err, "there are no names");
}

const char *host_lookup_why(const struct host_lookup *l)
{
    (void)l;
    return "";
}

void host_lookup_stop(struct host_lookup *l)
{
    (void)l;
}

struct tcp_probe *tcp_probe_start(struct loop *loop, struct slice endpoint, tcp_probe_f f,
                                  void *arg, struct err *err)
{
    (void)loop, (void)endpoint, (void)f, (void)arg;
    return err_null(err, "nobody asks why");
}

void tcp_probe_stop(struct tcp_probe *p)
{
    (void)p;
}

/* A descriptor is the number of a connection. */
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *size);

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *size)
{
    (void)fd, (void)address, (void)size;
    return -1;
}

void *zmq_ctx_new(void)
{
    return NULL;
}

int zmq_ctx_term(void *context)
{
    (void)context;
    return 0;
}

int unix_connect(const char *path)
{
    (void)path;
    return -1;
}

struct message_stream *message_stream_open(struct loop *loop, int fd,
                                           const struct message_stream_handler *handler,
                                           struct err *err)
{
    (void)loop, (void)fd, (void)handler;
    return err_null(err, "there is none");
}

int message_stream_send(struct message_stream *s, struct slice head, zmq_msg_t *m, struct err *err)
{
    (void)s, (void)head, (void)m;
    return err_set(err, "there is none");
}

bool message_stream_is_over(const struct message_stream *s)
{
    (void)s;
    return true;
}

void message_stream_close(struct message_stream *s, int linger_ms)
{
    (void)s, (void)linger_ms;
}
