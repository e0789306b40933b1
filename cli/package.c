#include "cli/kernelspec.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"

char *package_moved(const char *kernel)
{
    struct buf path = BUF_INIT;

    if (!access(CELLSPAN_PYTHONDIR "/cellspan", R_OK) || buf_add_text(&path, kernel))
        goto none;
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path.p, '/');

        if (!slash)
            goto none;
        *slash = '\0';
        path.n = (size_t)(slash - path.p);
    }
    if (!buf_add_text(&path, "/lib/cellspan/python") && !access(path.p, R_OK))
        return buf_take(&path);
none:
    buf_release(&path);
    return NULL;
}
