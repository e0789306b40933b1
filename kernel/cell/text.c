#include "kernel/cell/text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* What stands after the backslash for a byte that JSON does not take as it is; 0: as it is; 'u': \u00XX. */
static char escape_of(unsigned char c)
{
    switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return c < 0x20 ? 'u' : 0;
    }
}

int text_string(struct buf *out, struct slice s)
{
    size_t from = 0;

    if (buf_reserve(out, s.n + s.n / 16 + 2) < 0 || buf_add(out, "\"", 1) < 0)
        return -1;
    for (size_t k = 0; k < s.n; k++) {
        const char e = escape_of((unsigned char)s.p[k]);
        const char two[2] = { '\\', e };

        if (!e)
            continue;
        if (buf_add(out, s.p + from, k - from) < 0)
            return -1;
        if ((e == 'u' ? buf_addf(out, "\\u%04x", (unsigned)(unsigned char)s.p[k]) : buf_add(out, two, 2)) < 0)
            return -1;
        from = k + 1;
    }
    return buf_add(out, s.p + from, s.n - from) < 0 ? -1 : buf_add(out, "\"", 1);
}

int text_json(struct buf *out, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const int rc = text ? buf_add_text(out, text) : -1;

    free(text);
    json_decref(value);
    return rc;
}

json_t *text_parse(struct slice text)
{
    return json_loadb(text.p, text.n, 0, NULL);
}

const char *text_field(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

const char *text_signal(unsigned long signo, char out[static 24])
{
    static const struct { int no; const char *name; } names[] = {
        { SIGHUP, "SIGHUP" }, { SIGINT, "SIGINT" }, { SIGQUIT, "SIGQUIT" }, { SIGILL, "SIGILL" },
        { SIGTRAP, "SIGTRAP" }, { SIGABRT, "SIGABRT" }, { SIGBUS, "SIGBUS" }, { SIGFPE, "SIGFPE" },
        { SIGKILL, "SIGKILL" }, { SIGSEGV, "SIGSEGV" }, { SIGPIPE, "SIGPIPE" }, { SIGALRM, "SIGALRM" },
        { SIGTERM, "SIGTERM" }, { SIGUSR1, "SIGUSR1" }, { SIGUSR2, "SIGUSR2" }, { SIGXCPU, "SIGXCPU" },
    };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if ((unsigned long)names[k].no == signo)
            return names[k].name;
    snprintf(out, 24, "signal %lu", signo);
    return out;
}
