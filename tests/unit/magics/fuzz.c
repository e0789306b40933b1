/* SPDX-License-Identifier: BSD-3-Clause */
/* Random cells: pieces of valid ones, shuffled by a small generator, so that each run tries the
 * same. */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/tap.h"

static const char *const pieces[] = {
    "%%distribute",
    "%distribute",
    "%push",
    "%pull",
    "%ranks",
    "\n",
    " ",
    "-n",
    "4",
    "--ranks",
    "0,2-3",
    "--merge",
    "fold",
    "=",
    "--",
    "-",
    "'",
    "\"",
    "\\",
    "#",
    "?",
    "%",
    "--init",
    "gloo",
    "--capture",
    "a,b",
    "--env",
    "K=V",
    "--timeout",
    "1.5m",
    "--into",
    "x",
    "stop",
    "train.py",
    "-m",
    "\xc3",
    "\xa4",
    "\t",
    "\r",
    "--help",
    ",",
    "--no-capture",
    "99999999999999999999",
};
#define PIECES (sizeof pieces / sizeof pieces[0])

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

int main(void)
{
    uint32_t state = 7;

    for (unsigned run = 0; run < 4000; run++) {
        char cell[256] = "";
        size_t n = 0;

        for (unsigned k = next(&state) % 12 + 1; k > 0; k--) {
            const char *piece = pieces[next(&state) % (run % 4 ? PIECES : 7)];

            if (n + strlen(piece) + 2 >= sizeof cell)
                break;
            memcpy(cell + n, piece, strlen(piece));
            n += strlen(piece);
            if (next(&state) % 2)
                cell[n++] = ' ';
        }
        if (next(&state) % 16 == 0 && n)
            cell[next(&state) % n] = (char)next(&state);
        LLVMFuzzerTestOneInput((const uint8_t *)cell, n);
    }
    ok(true, "4000 shuffled cells give a plan or one line of text");
    return plan_done();
}
