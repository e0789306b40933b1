/* SPDX-License-Identifier: BSD-3-Clause */
/* cellspan-kernel: reads the arguments, creates the kernel and runs the loop. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/process.h"
#include "base/random.h"
#include "base/settings.h"
#include "kernel/kernel.h"

static int run(const struct arguments *arguments, struct err *err)
{
    struct loop *loop = loop_create(&clock_system, err);
    struct kernel *kernel = loop ? kernel_create(loop, arguments, err) : NULL;
    const int rc = kernel ? loop_run(loop, err) : -1;

    kernel_destroy(kernel);
    loop_destroy(loop);
    return rc;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct err err = { "" };
    const int parsed = arguments_parse(&arguments, argc, argv, &err);

    settings_open_log("kernel");
    if (parsed == 1)
        return EXIT_SUCCESS;
    if (parsed == 0 && process_adopt_orphans() < 0)
        log_info("main", "no subreaper here: orphans of users' code are not ours to end");
    if (parsed < 0 || arguments_export(&arguments, &err) < 0 || random_open(&err) < 0 ||
        run(&arguments, &err) < 0) {
        fprintf(stderr, "cellspan-kernel: %s\n", err.text);
        arguments_release(&arguments);
        return EXIT_FAILURE;
    }
    arguments_release(&arguments);
    return EXIT_SUCCESS;
}
