/* SPDX-License-Identifier: BSD-3-Clause */
/* client.h - a client of one kernel: sends requests, and passes on what the kernel sends. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <limits.h>

#include "base/loop/loop.h"
#include "base/slice.h"
#include "kernel/jupyter/connection.h"
#include "kernel/jupyter/inbox.h"

struct client;

enum client_channel { CLIENT_SHELL, CLIENT_CONTROL, CLIENT_IOPUB, CLIENT_STDIN, CLIENT_CHANNELS };

/* A verified message (borrowed). ours: it belongs to the last request that was sent on shell. */
typedef void (*client_message_f)(void *arg, enum client_channel channel, struct request *m,
                                 bool ours);

#define CLIENT_ALL UINT_MAX
/* Connects; the kernel may bind later. channels: bits 1u << CLIENT_…, the others are not used.
 * tells: the kernel is told what was read of iopub, so it loses nothing, and only a few MiB wait
 * here while it is held. Otherwise as much waits as comes. */
struct client *client_create(struct loop *loop, const struct connection *c, unsigned channels,
                             bool tells, client_message_f f, void *arg, struct err *err);
void client_destroy(struct client *c); /* NULL is fine; what was sent has half a second to leave */
/* On any but CLIENT_IOPUB; content is a JSON object as text. */
MUST_USE int client_send(struct client *c, enum client_channel channel, const char *type,
                         struct slice content, struct err *err);
/* While it is held no message of this channel comes: they wait. */
MUST_USE int client_hold(struct client *c, enum client_channel channel, bool hold, struct err *err);
/* The kernel has ended: has all that it sent on iopub been passed on? */
bool client_is_drained(struct client *c);

#endif
