/* hmac.h - HMAC-SHA256 as Jupyter signs its messages: over the four JSON frames, in hexadecimal.
 * Pure. */
#ifndef PROTOCOL_HMAC_H
#define PROTOCOL_HMAC_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

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

#endif
