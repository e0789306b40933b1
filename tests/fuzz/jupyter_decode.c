/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a message's frames: cut at newlines, decoded unsigned, then signed and decoded
 * again, so that the fuzzer gets past the signature. */
#include <stdlib.h>

#include "protocol/jupyter.h"
#include "tests/fuzz/fuzz.h"

#define FRAMES_MOST 64u

const char fuzz_corpus[] = "tests/fuzz/seeds/jupyter-*.hex";
const unsigned fuzz_prefixes = 0;

/* Each frame a copy of exactly its size, so that a byte too many is seen. */
static size_t cut(const char *p, size_t size, struct slice frame[FRAMES_MOST],
                  char *copy[FRAMES_MOST])
{
    size_t n = 0;

    while (n < FRAMES_MOST) {
        const char *end = size ? memchr(p, '\n', size) : NULL;
        const size_t length = end ? (size_t)(end - p) : size;

        if (!(copy[n] = malloc(length ? length : 1)))
            return n;
        if (length)
            memcpy(copy[n], p, length);
        frame[n] = slice_of(copy[n], length);
        n++;
        if (!end)
            break;
        p += length + 1;
        size -= length + 1;
    }
    return n;
}

static void decode(const char *key, struct slice *frame, size_t n, bool sign)
{
    struct jupyter_session s;
    struct jupyter_message m;
    char signature[HMAC_TEXT_SIZE];
    struct err err = { "" };

    if (jupyter_session_init(&s, "fuzz", "fuzz", slice_text(key), &err) < 0)
        return;
    for (size_t i = 0; sign && i + 5 < n; i++)
        if (slice_is(frame[i], JUPYTER_DELIMITER)) {
            hmac_sign(&s.key, frame + i + 2, JUPYTER_PARTS, signature);
            frame[i + 1] = slice_text(signature);
            break;
        }
    if (jupyter_decode(&s, frame, n, &m) == JUPYTER_FINE) {
        if (!json_is_object(m.header) || !json_is_object(m.content) || !m.type[0] || !m.id[0])
            abort();
        jupyter_message_release(&m);
    } else if (sign && jupyter_decode(&s, frame, n, &m) == JUPYTER_FINE) {
        abort(); /* what was refused once is refused again */
    }
    jupyter_session_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice frame[FRAMES_MOST];
    char *copy[FRAMES_MOST];
    const size_t n = cut((const char *)data, size, frame, copy);

    decode("", frame, n, false);
    decode("key", frame, n, false);
    decode("key", frame, n, true);
    for (size_t i = 0; i < n; i++)
        free(copy[i]);
    return 0;
}
