/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/random.h"

#include <sodium.h>
#include <uuid/uuid.h>

int random_open(struct err *err)
{
    if (sodium_init() < 0)
        return err_set(err, "libsodium can't start: this system has no source of random numbers: "
                            "give it /dev/urandom");
    return 0;
}

void random_bytes(void *p, size_t n)
{
    randombytes_buf(p, n);
}

uint64_t random_u64(void)
{
    uint64_t n;

    randombytes_buf(&n, sizeof n);
    return n;
}

void random_uuid(char out[static UUID_TEXT_SIZE])
{
    uuid_t id;

    uuid_generate_random(id);
    uuid_unparse_lower(id, out);
}
