/* cellspan-kernel: builds the house, runs the loop, nothing else. */
#ifdef __linux__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/process.h"
#include "base/random.h"
#include "kernel/kernel.h"

static int run(const struct arguments *arguments, struct err *err)
{
    struct loop *loop = loop_create(&clock_system, err);
    struct kernel *house = loop ? kernel_create(loop, arguments, err) : NULL;
    const int rc = house ? loop_run(loop, err) : -1;

    kernel_destroy(house);
    loop_destroy(loop);
    return rc;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct err err = { "" };
    const int parsed = arguments_parse(&arguments, argc, argv, &err);

#ifdef __linux__
    /* ZeroMQ's thread gets an arena of its own; more would only cost memory */
    mallopt(M_ARENA_MAX, 2);
#endif
    log_open("kernel");
    if (parsed == 1)
        return EXIT_SUCCESS;
    if (parsed == 0 && process_adopt_orphans() < 0)
        log_info("main", "no subreaper here: orphans of users' code are not ours to end");
    if (parsed < 0 || arguments_hand_on(&arguments, &err) < 0 || random_open(&err) < 0 ||
        run(&arguments, &err) < 0) {
        fprintf(stderr, "cellspan-kernel: %s\n", err.text);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
