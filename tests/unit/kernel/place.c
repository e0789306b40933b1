/* SPDX-License-Identifier: BSD-3-Clause */
/* On which machine each rank is placed: by slots, by GPUs, evenly; growing worlds, and too little
 * room. */
#include "kernel/group/place.h"

#include <string.h>

#include "tests/unit/tap.h"

#define N(list) (sizeof(list) / sizeof *(list))

static const struct place_want any = { 0 };

/* Places `world` ranks that were nowhere before, and writes their machines down: "0011". */
static const char *placed(const struct place_node *node, size_t n, const struct place_want *want,
                          unsigned world)
{
    static char text[65];
    static struct err err;
    unsigned at[64];

    err.text[0] = '\0';
    for (unsigned k = 0; k < world; k++)
        at[k] = PLACE_NOWHERE;
    if (place_ranks(node, n, want, at, NULL, world, world, &err) < 0)
        return err.text;
    for (unsigned k = 0; k < world; k++)
        text[k] = (char)('0' + at[k]);
    text[world] = '\0';
    return text;
}

static void evenly(void)
{
    const struct place_node two[] = { { .name = "h1", .cores = 2 }, { .name = "h2", .cores = 1 } };
    const struct place_node many[] = { { .name = "a", .cores = 8 },
                                       { .name = "b" },
                                       { .name = "c" },
                                       { .name = "d" },
                                       { .name = "e" } };

    is_text(placed(two, 2, &any, 4), "0011", "ranks are placed in blocks of consecutive numbers");
    is_text(placed(two, 2, &any, 5), "00011",
            "an uneven number of ranks: the first machine gets one more");
    is_text(placed(two, 2, &any, 1), "0", "a single rank is placed on the first machine");
    is_int(place_world(two, 2, &any), 3,
           "without -n there is one rank for each core of all machines");
    is_int(place_world(two, 1, &any), 2,
           "without -n on one machine there is one rank for each of its cores");
    is_int(place_world(many, 1, &any), 4, "without -n there are at most four ranks on one machine");
    is_int(place_world(many, 5, &any), 5, "without -n there is at least one rank for each machine");
    is_text(placed(two, 0, &any, 1), "-n 1: there is no machine to run on",
            "without machines placing fails");
}

static void slots(void)
{
    const struct place_node both[] = { { .name = "h1", .slots = 1 }, { .name = "h2", .slots = 3 } };
    const struct place_node one[] = { { .name = "h1" }, { .name = "h2", .slots = 2 } };

    is_text(placed(both, 2, &any, 4), "0111", "ranks fill the given slots of each machine");
    is_text(placed(both, 2, &any, 2), "01", "fewer ranks than slots fill the machines in order");
    is_int(place_world(both, 2, &any), 4, "without -n there are as many ranks as slots");
    is_text(
        placed(both, 2, &any, 5),
        "-n 5: there is room for 4 ranks (h1: 1, h2: 3); give -n 4, or end the ranks by %ranks stop and ask for more in --on",
        "more ranks than slots are refused, with the number of slots");
    is_int(
        place_world(one, 2, &any), 3,
        "without -n, a machine without given slots counts for one rank beside others with slots");
    is_text(placed(one, 2, &any, 5), "00011",
            "a machine without given slots takes the ranks that are left");
    is_text(placed(one, 2, &any, 2), "01",
            "a machine without given slots gets a rank before the others are full");
}

static void gpus(void)
{
    const struct place_node two[] = { { .name = "h1", .gpus = 2, .gpus_all = 2 },
                                      { .name = "h2", .gpus = 1, .gpus_all = 4 } };
    const struct place_node mixed[] = { { .name = "h1" },
                                        { .name = "h2", .gpus = 1, .gpus_all = 1 } };
    const struct place_node slot[] = { { .name = "h1", .slots = 2, .gpus = 1, .gpus_all = 1 } };
    const struct place_node taken[] = { { .name = "h1", .gpus_all = 1 } };
    const struct place_node broken[] = {
        { .name = "h1", .held = "no driver" },
        { .name = "h2", .held = "no driver" },
        { .name = "h3", .held = "" },
        { .name = "h4", .held = "reboot" },
    };
    const struct place_want none = { .no_gpu = true }, pairs = { .gpus = 2 },
                            share = { .share = true };

    is_text(placed(two, 2, &any, 3), "001", "one rank is placed for each free GPU");
    is_int(place_world(two, 2, &any), 3, "without -n there are as many ranks as free GPUs");
    is_int(place_world_of_gpus(two, 2, &pairs), 1,
           "with two GPUs for each rank there are fewer ranks");
    is_int(place_gpus(two, 2, &any), 1, "by default each rank gets one GPU");
    is_int(place_gpus(two, 2, &none), 0, "with --no-gpu ranks get no GPUs");
    is_text(placed(two, 2, &none, 4), "0011", "with --no-gpu ranks are placed evenly");
    is_text(
        placed(two, 2, &any, 4),
        "-n 4: there are 3 GPUs (h1: 2, h2: 1 free of 4) for 4 ranks; --no-gpu runs without GPUs, --share lets several processes use one GPU",
        "too few GPUs: the error counts them by machine");
    is_text(
        placed(two, 2, &pairs, 2),
        "-n 2: there are 3 GPUs (h1: 2, h2: 1 free of 4) for 2 ranks with 2 each; --no-gpu runs without GPUs, --gpus K gives each rank fewer",
        "too few GPUs for two each: the error says so");
    is_text(placed(two, 2, &share, 6), "000111",
            "with --share there is room for more ranks than free GPUs");
    is_int(place_world(two, 2, &share), 6,
           "with --share and without -n there is one rank for each GPU, free or not");
    is_text(placed(mixed, 2, &any, 1), "1",
            "a machine without GPUs gets no rank, if another has some");
    is_text(
        placed(slot, 1, &any, 2),
        "-n 2: there is 1 GPU (h1: 1) for 2 ranks; --no-gpu runs without GPUs, --share lets several processes use one GPU",
        "slots without GPUs are not enough");
    is_int(place_world(taken, 1, &any), 1,
           "a machine whose GPUs are all in use counts for one rank");
    is_text(
        placed(taken, 1, &any, 1),
        "-n 1: there are 0 GPUs (h1: 0 free of 1) for 1 rank; --no-gpu runs without GPUs, --share lets several processes use one GPU",
        "placing a rank there fails, and the error counts free GPUs");
    is_text(
        placed(broken, 4, &pairs, 1),
        "--gpus 2: there is no GPU on h1, h2, h3, h4 (leave --gpus out to run without); h1: no driver; h4: reboot",
        "no GPUs: each reason is told once");
    is_text(placed(mixed, 1, &pairs, 1),
            "--gpus 2: there is no GPU on h1 (leave --gpus out to run without)",
            "--gpus fails on a machine without GPUs");
}

static void growth(void)
{
    const struct place_node two[] = { { .name = "h1" }, { .name = "h2" } };
    const struct place_node full[] = { { .name = "h1", .slots = 2 }, { .name = "h2", .slots = 2 } };
    struct err err = { "" };
    unsigned at[] = { 0, 1, PLACE_NOWHERE, PLACE_NOWHERE };
    unsigned back[] = { 0, PLACE_NOWHERE, 1, PLACE_NOWHERE };
    const unsigned before[] = { 0, 0, 1, 1 };
    unsigned idle[] = { PLACE_NOWHERE, 0, 1, 1 };
    unsigned none[] = { PLACE_NOWHERE, PLACE_NOWHERE };
    const unsigned other[] = { 1, 1 };

    ok(place_ranks(two, 2, &any, at, NULL, 4, 4, &err) == 0 && at[2] == 0 && at[3] == 1,
       "new ranks are placed evenly beside the living ones");
    ok(place_ranks(two, 2, &any, back, before, 4, 4, &err) == 0 && back[1] == 0 && back[3] == 1,
       "a rank that died is placed on its old machine");
    ok(place_ranks(full, 2, &any, idle, NULL, 2, 4, &err) == 0 && idle[0] == 0,
       "living ranks beyond the world still take up their slots");
    ok(place_ranks(two, 2, &any, none, other, 2, 2, &err) == 0 && none[0] == 0 && none[1] == 1,
       "if no rank lives, old places do not count, and ranks are placed in order");
    idle[0] = PLACE_NOWHERE;
    ok(place_ranks(full, 1, &any, idle, NULL, 3, 4, &err) < 0 && strstr(err.text, "room for 2"),
       "without room placing fails: %s", err.text);
    ok(idle[0] == PLACE_NOWHERE, "after a failure the places are unchanged");
}

int main(void)
{
    evenly();
    slots();
    gpus();
    growth();
    return plan_done();
}
