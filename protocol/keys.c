/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/keys.h"

#include <sodium.h>
#include <string.h>

#include "base/le.h"
#include "base/random.h"

#define VERSION  "2:"
#define OWN      "2a:" /* of one agent */
#define HEX_SIZE (2 * KEY_SIZE)

_Static_assert(KEY_SIZE == crypto_box_PUBLICKEYBYTES && KEY_SIZE == crypto_box_SECRETKEYBYTES &&
                   KEY_SIZE == crypto_box_SEEDBYTES,
               "CURVE's keys are those of crypto_box");
_Static_assert(SECRET_TEXT_SIZE > sizeof OWN + 2 * HEX_SIZE + 1, "the text has room");

void keys_create(struct keys *k)
{
    unsigned char seed[KEY_SIZE];

    random_bytes(seed, sizeof seed);
    (void)crypto_box_seed_keypair(k->public, k->secret, seed);
    sodium_memzero(seed, sizeof seed);
}

void keys_wipe(struct keys *k)
{
    sodium_memzero(k, sizeof *k);
}

void keys_derive(struct keys *k, const struct secret *s, uint32_t index, uint32_t turn)
{
    unsigned char seed[KEY_SIZE], number[8];
    const size_t size = turn ? 8 : 4;

    le_put(number, 4, index);
    le_put(number + 4, 4, turn);
    if (s->own)
        memcpy(seed, s->seed, sizeof seed);
    else
        (void)crypto_generichash(seed, sizeof seed, number, size, s->seed, sizeof s->seed);
    (void)crypto_box_seed_keypair(k->public, k->secret, seed);
    sodium_memzero(seed, sizeof seed);
}

void secret_create(struct secret *s, const struct keys *kernel)
{
    memcpy(s->kernel, kernel->public, KEY_SIZE);
    random_bytes(s->seed, sizeof s->seed);
    s->own = false;
}

void secret_wipe(struct secret *s)
{
    sodium_memzero(s, sizeof *s);
}

void secret_format(const struct secret *s, char out[static SECRET_TEXT_SIZE])
{
    const char *const head = s->own ? OWN : VERSION;

    memcpy(out, head, strlen(head));
    out += strlen(head);
    (void)sodium_bin2hex(out, HEX_SIZE + 1, s->kernel, KEY_SIZE);
    out[HEX_SIZE] = ':';
    (void)sodium_bin2hex(out + HEX_SIZE + 1, HEX_SIZE + 1, s->seed, KEY_SIZE);
}

static int unhex(unsigned char key[KEY_SIZE], const char *text)
{
    size_t n;

    return sodium_hex2bin(key, KEY_SIZE, text, HEX_SIZE, NULL, &n, NULL) == 0 && n == KEY_SIZE ? 0
                                                                                               : -1;
}

int secret_parse(struct secret *s, struct slice text, struct err *err)
{
    const bool own = text.n >= sizeof OWN - 1 && memcmp(text.p, OWN, sizeof OWN - 1) == 0;
    const size_t head = own ? sizeof OWN - 1 : sizeof VERSION - 1;

    s->own = own;
    if (text.n >= 2 && text.p[1] == ':' && text.p[0] != VERSION[0])
        return err_set(
            err,
            "CELLSPAN_SECRET is of another version of cellspan: install the same one on both sides");
    if (text.n != head + 2 * HEX_SIZE + 1 || (!own && memcmp(text.p, VERSION, head) != 0) ||
        text.p[head + HEX_SIZE] != ':' || unhex(s->kernel, text.p + head) < 0 ||
        unhex(s->seed, text.p + head + HEX_SIZE + 1) < 0) {
        secret_wipe(s);
        return err_set(
            err,
            "CELLSPAN_SECRET is not what a kernel hands out: the engine must pass it on unchanged");
    }
    return 0;
}
