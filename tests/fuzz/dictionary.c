/* SPDX-License-Identifier: BSD-3-Clause */
/* dictionary.c - prints libFuzzer's dictionary from the table of kinds: the first bytes of each
 * header, and sizes around each limit. With a folder and .hex files as arguments: writes each as
 * bytes to the folder, for a first corpus. */
#include <stdlib.h>

#include "base/path.h"
#include "tests/unit/protocol/kinds.h"
#include "tests/unit/protocol/source.h"

static void print_size(uint32_t n)
{
    printf("\"\\x%02x\\x%02x\\x%02x\\x%02x\"\n", n & 0xff, n >> 8 & 0xff, n >> 16 & 0xff, n >> 24);
}

static void print_dictionary(void)
{
    const struct span_info *info;

    for (unsigned k = 0; (info = kind_at(k)); k++) {
        printf("# %s\n\"\\x%02x\\x%02x\\x00\\x00\"\n", info->name, SPAN_VERSION,
               (unsigned)info->kind);
        for (unsigned i = 0; i < info->n; i++)
            if (info->field[i].type != SPAN_U64) {
                print_size((uint32_t)info->field[i].max);
                print_size((uint32_t)info->field[i].max + 1);
            }
    }
    print_size(SPAN_ITEMS_MAX);
    print_size(SPAN_ITEMS_MAX + 1);
    print_size(UINT32_MAX);
}

static int write_seed(const char *folder, const char *path)
{
    char *text = file_read(path, NULL);
    struct buf bytes = BUF_INIT;
    char out[4096];
    FILE *f = NULL;
    int rc = 1;

    snprintf(out, sizeof out, "%s/%s.seed", folder, path_name(path));
    if (text && hex_read(text, &bytes) == 0 && (f = fopen(out, "wb")))
        rc = fwrite(bytes.p, 1, bytes.n, f) != bytes.n;
    if (f && fclose(f) != 0)
        rc = 1;
    free(text);
    buf_release(&bytes);
    return rc;
}

int main(int argc, char **argv)
{
    int rc = 0;

    if (argc < 3)
        print_dictionary();
    for (int i = 2; i < argc; i++)
        rc |= write_seed(argv[1], argv[i]);
    return rc;
}
