/* place.c - see place.h. */
#include "worker/agent/place.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#ifndef CELLSPAN_PYTHONDIR
#define CELLSPAN_PYTHONDIR ""
#endif

bool place_version(const char *path, char out[static 32])
{
    static const char name[] = "python3.";
    const char *found = NULL;
    size_t digits = 0;

    for (const char *p = path; (p = strstr(p, name)); p += sizeof name - 1)
        found = p;
    if (!found)
        return false;
    while (isdigit((unsigned char)found[sizeof name - 1 + digits]) && digits < 4)
        digits++;
    if (digits == 0)
        return false;
    snprintf(out, 32, "%.*s", (int)(sizeof name - 1 + digits), found);
    return true;
}

static bool is_program(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
}

static bool on_path(const char *name, const char *path, char out[static PATH_MAX])
{
    if (strchr(name, '/')) {
        const int n = snprintf(out, PATH_MAX, "%s", name);

        return n > 0 && n < PATH_MAX && is_program(out);
    }
    for (const char *p = path ? path : ""; *p;) {
        const size_t n = strcspn(p, ":");
        const int size = snprintf(out, PATH_MAX, "%.*s/%s", (int)n, p, name);

        if (n > 0 && size > 0 && size < PATH_MAX && is_program(out))
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

int place_python(const char *wanted, const char *told, const char *path, const char *node, char out[static PATH_MAX],
                 struct err *err)
{
    char version[32] = "";

    if (told && told[0]) {
        if (on_path(told, path, out))
            return 0;
        log_warn("agent", "CELLSPAN_REMOTE_PYTHON: there is no %s here", told);
    }
    if (on_path(wanted, path, out))
        return 0;
    if (told && told[0])
        return err_set(err, "%s has neither %s, as CELLSPAN_REMOTE_PYTHON says, nor %s", node, told, wanted);
    if ((place_version(wanted, version) || place_version(CELLSPAN_PYTHONDIR, version)) && on_path(version, path, out))
        goto found;
    if (on_path("python3", path, out) || on_path("python", path, out))
        goto found;
    return err_set(
        err,
        "%s has no %s, and no %s%spython3 or python on PATH: install it there, or set CELLSPAN_REMOTE_PYTHON to "
        "where it is there, in the notebook's environment",
        node, wanted, version, version[0] ? ", " : "");
found:
    log_info("agent", "there is no %s here: ranks run %s", wanted, out);
    return 0;
}

bool place_has_folder(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISDIR(s.st_mode) && access(path, X_OK) == 0;
}
