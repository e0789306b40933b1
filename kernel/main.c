/* SPDX-License-Identifier: BSD-3-Clause */
/* cellspan-kernel: reads the arguments, creates the kernel and runs the loop. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/process.h"
#include "base/random.h"
#include "base/settings_files.h"
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

#define MISTAKES_TOLD 8u /* in the first cell */

/* Reads the files with settings, logs what is wrong in them and in the environment, and appends it
 * for the first cell. Comes before anything reads a setting. */
static void read_settings(struct buf *notice)
{
    struct settings_files files = SETTINGS_FILES_INIT;
    const int rc = settings_files_load(&files);
    struct slice rest = buf_slice(&files.mistakes);
    bool fits = true;

    settings_open_log("kernel");
    if (rc < 0)
        log_error("settings", "out of memory: not all files with settings were read");
    for (unsigned n = 0; rest.n; n++) {
        const struct slice line = slice_line(&rest);

        log_error("settings", "%.*s", SLICE_ARG(line));
        if (fits && n < MISTAKES_TOLD)
            fits = buf_addf(notice, "%.*s\n", SLICE_ARG(line)) == 0;
        else if (fits && n == MISTAKES_TOLD)
            fits = buf_add_text(notice, "and more: `cellspan config` lists them\n") == 0;
    }
    settings_files_release(&files);
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct buf notice = BUF_INIT;
    struct err err = { "" };
    int parsed, rc = -1;

    (void)fd_open_standard();
    parsed = arguments_parse(&arguments, argc, argv, &err);
    if (parsed == 1)
        return EXIT_SUCCESS;
    read_settings(&notice);
    arguments.notice = notice.p;
    if (parsed == 0 && process_adopt_orphans() < 0)
        log_info("main", "no subreaper here: orphans of users' code are not ours to end");
    if (parsed == 0 && arguments_export(&arguments, &err) == 0 && random_open(&err) == 0)
        rc = run(&arguments, &err);
    if (rc < 0)
        fprintf(stderr, "cellspan-kernel: %s\n", err.text);
    arguments_release(&arguments);
    buf_release(&notice);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
