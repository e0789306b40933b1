/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as the files of settings, all three the same. Whatever they say, each mistake is a line
 * that names its file, and what counts is valid. The first byte is the number of the allocation
 * that fails; 255: none does. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings_files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/chaos.h"

const char fuzz_corpus[] = "tests/fuzz/seeds/settings-*.hex";
const unsigned fuzz_prefixes = 0;

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void forget(void)
{
    char variable[SETTING_MAXIMUM];

    for (int i = 0; i < N_SETTINGS; i++) {
        unsetenv(setting_rows[i].name);
        unsetenv(setting_maximum((enum setting)i, variable));
    }
}

static void check(const struct settings_files *f)
{
    struct slice rest = buf_slice(&f->mistakes);

    while (rest.n) {
        const struct slice line = slice_line(&rest);

        demand(slice_begins(line, f->path[0]) && slice_holds(line, ": "));
    }
    for (int i = 0; i < N_SETTINGS; i++) {
        const struct setting_now *now = &f->now[i];
        const char *text = setting_text((enum setting)i);

        demand(!text || setting_check((enum setting)i, text) == 0);
        demand(!f->most[i].text || !setting_exceeds((enum setting)i, text, f->most[i].text));
        demand(now->origin != ORIGIN_FILE || now->asked);
        demand(f->value[i].file != FILE_OF_PROJECT || setting_rows[i].project);
    }
}

static void read_files(const char *path, uint8_t fails)
{
    struct settings_files f = SETTINGS_FILES_INIT;
    bool paths = true;
    int rc = -1;

    for (int i = 0; i < N_SETTINGS_FILES; i++)
        paths = (f.path[i] = strdup(path)) && paths;
    alloc_fail_at(fails < 255 ? fails : -1);
    if (paths && settings_files_read(&f) == 0)
        rc = settings_files_settle(&f);
    alloc_fail_at(-1);
    if (rc == 0)
        check(&f);
    settings_files_release(&f);
    forget();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = size ? memfd_create("settings", MFD_CLOEXEC) : -1;
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1))
        read_files(path, data[0]);
    if (fd >= 0)
        close(fd);
    return 0;
}
