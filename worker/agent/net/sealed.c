/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/sealed.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX (SECRET_TEXT_SIZE - 1)
#define BOX_MAX  (TEXT_MAX + crypto_box_SEALBYTES)

_Static_assert(SEALED_TEXT_SIZE > 2 * BOX_MAX, "the text has room");

int sealed_ask(struct keys *k, struct err *err)
{
    char text[2 * KEY_SIZE + 1];

    keys_create(k);
    (void)sodium_bin2hex(text, sizeof text, k->public, KEY_SIZE);
    if (printf("key %s\n", text) < 0 || fflush(stdout) != 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return err_set(err, "stdout can't be written: %s", strerror(errno));
    return 0;
}

int sealed_close(const char *key, const char *secret, char out[static SEALED_TEXT_SIZE],
                 struct err *err)
{
    unsigned char public[KEY_SIZE], box[BOX_MAX];
    const size_t size = strlen(secret);
    size_t n = 0;

    if (strlen(key) != sizeof public * 2 ||
        sodium_hex2bin(public, sizeof public, key, strlen(key), NULL, &n, NULL) < 0 ||
        n != sizeof public)
        return err_set(err, "--seal %.80s: write the key that the agent has printed", key);
    if (size == 0 || size > TEXT_MAX)
        return err_set(err, "CELLSPAN_SECRET is not what a kernel hands out: the engine must pass "
                            "it on unchanged");
    if (crypto_box_seal(box, (const unsigned char *)secret, size, public) < 0)
        return err_set(err,
                       "--seal %.80s: no agent has such a key; write the one that it has "
                       "printed",
                       key);
    (void)sodium_bin2hex(out, SEALED_TEXT_SIZE, box, size + crypto_box_SEALBYTES);
    return 0;
}

int sealed_open(const struct keys *k, struct slice sealed, struct secret *secret, struct err *err)
{
    unsigned char box[BOX_MAX], text[TEXT_MAX];
    size_t n = 0;
    int rc = -1;

    if (sodium_hex2bin(box, sizeof box, sealed.p, sealed.n, NULL, &n, NULL) == 0 &&
        n > crypto_box_SEALBYTES && crypto_box_seal_open(text, box, n, k->public, k->secret) == 0)
        rc = secret_parse(secret, slice_of((const char *)text, n - crypto_box_SEALBYTES), err);
    else
        (void)err_set(err, "CELLSPAN_SEALED is not sealed for this agent: seal it with the key "
                           "that the agent has printed");
    sodium_memzero(text, sizeof text);
    return rc;
}
