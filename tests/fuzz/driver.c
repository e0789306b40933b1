/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c - runs a fuzz target, as a TAP test, over its first inputs and over changed ones, which
 * are the same in each run. With files as arguments: over these files unchanged, to examine what
 * libFuzzer found. */
#include <glob.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/protocol/source.h"
#include "tests/unit/tap.h"

#define CHANGED 400 /* inputs made of each */

/* xorshift: reproducible, and good enough to stir bytes. */
static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void run(const void *p, size_t n)
{
    uint8_t *exact = malloc(n ? n : 1); /* so that ASan sees one byte too far */

    if (!exact)
        return;
    memcpy(exact, p, n);
    (void)LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

/* Changes up to four bytes, to extremes half of the time, and sometimes the length. */
static void change(struct buf *b, uint32_t *state)
{
    static const uint8_t extremes[] = { 0, 1, 0x7f, 0x80, 0xfe, 0xff };

    for (uint32_t k = next(state) % 4; b->n > 0 && k < 4; k++) {
        const uint32_t dice = next(state);

        b->p[next(state) % b->n] = (char)(dice & 1 ? extremes[(dice >> 8) % sizeof extremes]
                                                   : dice >> 16 & 0xff);
    }
    if (b->n > 0 && next(state) % 4 == 0)
        b->n = next(state) % b->n;
}

static void run_changed(const struct buf *input, uint32_t *state)
{
    for (unsigned i = 0; i < CHANGED; i++) {
        struct buf b = BUF_INIT;

        if (buf_add_slice(&b, buf_slice(input)) == 0) {
            change(&b, state);
            run(b.p, b.n);
        }
        buf_release(&b);
    }
}

static void run_input(const struct buf *bytes, uint32_t *state)
{
    struct buf b = BUF_INIT;

    if (fuzz_prefixes == 0) {
        run(bytes->p, bytes->n);
        run_changed(bytes, state);
        return;
    }
    for (unsigned k = 0; k < fuzz_prefixes; k++) {
        const char prefix = (char)k;

        buf_clear(&b);
        if (buf_add(&b, &prefix, 1) < 0 || buf_add_slice(&b, buf_slice(bytes)) < 0)
            break;
        run(b.p, b.n);
    }
    run_changed(&b, state);
    buf_release(&b);
}

static void run_vector(const char *path, uint32_t *state)
{
    char *text = file_read(path, NULL);
    struct buf bytes = BUF_INIT;

    if (ok(text && hex_read(text, &bytes) == 0, "%s can be read", strrchr(path, '/') + 1)) {
        run_input(&bytes, state);
        ok(true, "and as it is, and changed %d times, it does no harm", CHANGED);
    }
    free(text);
    buf_release(&bytes);
}

static int run_files(char **path)
{
    for (; *path; path++) {
        size_t n = 0;
        char *bytes = file_read(*path, &n);

        if (bytes)
            run(bytes, n);
        free(bytes);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *top = getenv("top_srcdir");
    uint32_t state = 20261121;
    char pattern[4096];
    glob_t found;

    if (argc > 1)
        return run_files(argv + 1);
    snprintf(pattern, sizeof pattern, "%s/%s", top ? top : ".", fuzz_corpus);
    if (!ok(glob(pattern, 0, NULL, &found) == 0, "there are inputs"))
        return plan_done();
    for (size_t i = 0; i < found.gl_pathc; i++)
        run_vector(found.gl_pathv[i], &state);
    globfree(&found);
    return plan_done();
}
