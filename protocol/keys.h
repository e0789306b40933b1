/* SPDX-License-Identifier: BSD-3-Clause */
/* keys.h - the CURVE keys (ZeroMQ RFC 26) of the kernel and of its agents, and the secret that an
 * engine passes to the agents of one run. libsodium makes them. Every struct here holds secrets:
 * call keys_wipe() or secret_wipe() when done. */
#ifndef PROTOCOL_KEYS_H
#define PROTOCOL_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

#define KEY_SIZE         32u
#define SECRET_TEXT_SIZE 140u /* with the NUL */

struct keys {
    /* as ZMQ_CURVE_PUBLICKEY and ZMQ_CURVE_SECRETKEY take them */
    unsigned char public[KEY_SIZE], secret[KEY_SIZE];
};

/* What the agents of one run share. Agent i derives its own key pair from it. The kernel does the
 * same, so it knows each agent's public key. */
struct secret {
    unsigned char kernel[KEY_SIZE]; /* the kernel's public key */
    unsigned char seed[KEY_SIZE];
    bool own; /* the seed is that of one agent's key pair: an engine may give an agent no more */
};

void keys_create(struct keys *k); /* a new random pair */
void keys_wipe(struct keys *k);
/* The key pair of agent `index` of the run that has this seed; of the one agent whose own it is.
 * turn: how many agents had this index before, whose keys are used up; 0: it is the first. */
void keys_derive(struct keys *k, const struct secret *s, uint32_t index, uint32_t turn);

void secret_create(struct secret *s, const struct keys *kernel);
void secret_wipe(struct secret *s);
/* "2:KERNEL:SEED", both in hexadecimal; "2a:KERNEL:SEED": it is one agent's own. */
void secret_format(const struct secret *s, char out[static SECRET_TEXT_SIZE]);
/* -1: the text is not a secret. The text of *err never contains it. */
MUST_USE int secret_parse(struct secret *s, struct slice text, struct err *err);

#endif
