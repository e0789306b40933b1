/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that torch logs about a connection that was cut are left out; what is no such frame stays,
 * however its lines come. */
#include "kernel/merge/omit.h"

#include <string.h>

#include "tests/unit/tap.h"

#define HEAD  "[rank1]:[W1127 22:06:31.263391600 TCPStore.cpp:138] [c10d] recvValue failed on x\n"
#define RAISE "Exception raised from recvBytes at /torch/Utils.hpp:787 (most recent call first):\n"
#define FRAME "frame #7: c10d::TCPStore::wait() + 0x9d (0x7f48 in /x/libtorch_cpu.so)\n"
#define PAGE  "frame #1: a user's own\n"

/* What is left of text that comes in pieces of `each` lines. */
static void leaves(const char *text, size_t each, const char *want)
{
    enum omit_frames last = OMIT_FRAMES_NONE;
    struct slice rest = slice_text(text);
    struct buf all = BUF_INIT;

    while (rest.n) {
        const char *const from = rest.p;
        struct buf kept = BUF_INIT;

        for (size_t k = 0; rest.n && k < each; k++)
            (void)slice_line(&rest);
        if (buf_add_slice(&all,
                          omit_frames(&last, slice_of(from, (size_t)(rest.p - from)), &kept)) < 0)
            break;
        buf_release(&kept);
    }
    ok(slice_is(buf_slice(&all), want), "by %zu: %s", each, want);
    buf_release(&all);
}

int main(void)
{
    static const struct {
        const char *text, *want;
    } row[] = {
        { HEAD RAISE FRAME FRAME "<omitting python frames>\n" FRAME "\nmine\n", HEAD "mine\n" },
        { HEAD RAISE FRAME "\n" HEAD RAISE FRAME "\n", HEAD HEAD },
        { HEAD RAISE FRAME "mine\n" PAGE, HEAD "mine\n" PAGE },
        { HEAD "mine\n" RAISE FRAME "\n", HEAD "mine\n" RAISE FRAME "\n" },
        { RAISE FRAME PAGE "\n", RAISE FRAME PAGE "\n" },
        { "I say [c10d] x.cpp:1] [c10d] \n" RAISE, "I say [c10d] x.cpp:1] [c10d] \n" RAISE },
        { HEAD "\nmine\n", HEAD "\nmine\n" },
        { "mine\n\n", "mine\n\n" },
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (size_t each = 1; each < 4; each++)
            leaves(row[i].text, each, row[i].want);
    return plan_done();
}
