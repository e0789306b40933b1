/* SPDX-License-Identifier: BSD-3-Clause */
/* hmac.c - HMAC-SHA256 by libsodium. Its one-call function takes only keys of 32 bytes; init,
 * update and final take any length. */
#include "protocol/jupyter.h"

int hmac_init(struct hmac *h, struct slice key, struct err *err)
{
    memset(h, 0, sizeof *h);
    if (sodium_init() < 0)
        return err_set(err, "libsodium does not start: is /dev/urandom there?");
    h->signs = key.n > 0;
    crypto_auth_hmacsha256_init(&h->keyed, (const unsigned char *)key.p, key.n);
    return 0;
}

void hmac_release(struct hmac *h)
{
    sodium_memzero(h, sizeof *h);
}

void hmac_sign(const struct hmac *h, const struct slice *part, size_t n, char text[HMAC_TEXT_SIZE])
{
    unsigned char digest[crypto_auth_hmacsha256_BYTES];
    crypto_auth_hmacsha256_state state;

    text[0] = '\0';
    if (!h->signs)
        return;
    state = h->keyed;
    for (size_t i = 0; i < n; i++)
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)part[i].p, part[i].n);
    crypto_auth_hmacsha256_final(&state, digest);
    sodium_bin2hex(text, HMAC_TEXT_SIZE, digest, sizeof digest);
}

bool hmac_check(const struct hmac *h, const struct slice *part, size_t n, struct slice signature)
{
    char text[HMAC_TEXT_SIZE];

    if (!h->signs)
        return true;
    if (signature.n != HMAC_TEXT_SIZE - 1)
        return false;
    hmac_sign(h, part, n, text);
    return sodium_memcmp(text, signature.p, signature.n) == 0;
}
