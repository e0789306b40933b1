/* SPDX-License-Identifier: BSD-3-Clause */
/* pure_requests.c - the requests of a client and the log, as the simulator has them (pure.c). */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/unit/kernel/double.h"

struct request {
    unsigned refs;
    const char *type;
    char *text;
    json_t *content;
    int outputs;
    bool over;
};

struct request *request_ref(struct request *r)
{
    r->refs++;
    return r;
}

void request_unref(struct request *r)
{
    if (!r || --r->refs > 0)
        return;
    free(r->text);
    json_decref(r->content);
    free(r);
}

const char *request_type(const struct request *r)
{
    return r->type;
}

void request_add_outputs(struct request *r, int n)
{
    r->outputs += n;
}

int request_outputs(const struct request *r)
{
    return r->outputs;
}

const char *request_id(const struct request *r)
{
    (void)r;
    return "";
}

const char *request_subshell(const struct request *r)
{
    (void)r;
    return NULL;
}

bool request_is_over(const struct request *r)
{
    return r->over;
}

bool request_same_client(const struct request *a, const struct request *b)
{
    (void)a, (void)b;
    return true;
}

const json_t *request_content(const struct request *r)
{
    return r->content;
}

struct slice request_part(const struct request *r, enum jupyter_part part)
{
    return slice_text(part == JUPYTER_CONTENT ? r->text : "{}");
}

const struct slice *request_buffers(const struct request *r, size_t *n)
{
    (void)r;
    *n = 0;
    return NULL;
}

void log_at(enum log_level level, const char *part, const char *format, ...)
{
    (void)level, (void)part, (void)format;
}

void ask(struct world *w, const char *type, const char *content)
{
    struct request *r = malloc(sizeof *r);

    *r = (struct request){ 1, type, strdup(content), json_loads(content, 0, NULL), 0, false };
    dispatch_request(w->nb, r);
    settle(w);
    request_unref(r);
}
