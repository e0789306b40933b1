/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed.h - a secret that only one agent can read, for engines whose way to a node others may
 * read: the agent makes a key pair, the engine seals the secret with the public key. It is
 * libsodium's sealed box (X25519, XSalsa20-Poly1305), in hexadecimal. */
#ifndef WORKER_AGENT_NET_SEALED_H
#define WORKER_AGENT_NET_SEALED_H

#include "base/err.h"
#include "protocol/keys.h"

#define SEALED_TEXT_SIZE 400u /* with the NUL */

/* Prints the line "key HEX" to stdout, and stdout's end; what is printed later goes to stderr. */
MUST_USE int sealed_ask(struct keys *k, struct err *err);
/* A secret's text, sealed for the agent that has printed this key. */
MUST_USE int sealed_close(const char *key, const char *secret, char out[static SEALED_TEXT_SIZE],
                          struct err *err);
/* -1: it is not sealed for these keys. The text of *err never contains it. */
MUST_USE int sealed_open(const struct keys *k, struct slice sealed, struct secret *secret,
                         struct err *err);

#endif
