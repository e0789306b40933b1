/* SPDX-License-Identifier: BSD-3-Clause */
/* inherited_mask.c - applies the CUDA_VISIBLE_DEVICES that the agent was started with, by CUDA's
 * rules. (worker/agent/start.c sets the variable of ranks.) It is a list of numbers, or of
 * beginnings of "GPU-…" or of "MIG-…" names, all of one kind. The list ends at the first entry that
 * names no device; a device that is named twice makes the list empty. */
#include "worker/agent/gpu/gpu_list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"

#define TOKEN 128

/* Reads the next token, without the spaces around it. false: there is no more. */
static bool next_token(const char **at, char out[static TOKEN])
{
    const char *from = *at, *end;
    size_t n;

    if (!from)
        return false;
    end = strchr(from, ',');
    *at = end ? end + 1 : NULL;
    n = end ? (size_t)(end - from) : strlen(from);
    while (n && isspace((unsigned char)from[0]))
        from++, n--;
    while (n && isspace((unsigned char)from[n - 1]))
        n--;
    snprintf(out, TOKEN, "%.*s", (int)(n < TOKEN ? n : TOKEN - 1), from);
    return true;
}

/* Does the token have the form that drivers before R470 used for a MIG instance,
 * "MIG-GPU-uuid/gi/ci"? */
static bool has_old_name(const struct gpu *one, const char *token)
{
    char name[GPU_TEXT + 40];

    if (one->instance < 0 || one->gi < 0)
        return false;
    snprintf(name, sizeof name, "MIG-%s/%d/%d", one->parent, one->gi, one->ci);
    return strcmp(name, token) == 0;
}

/* Does the token name this device, or its GPU? */
static bool is_named(const struct gpu *one, const char *token)
{
    char *end;
    long number;

    if (text_begins(token, "MIG-"))
        return one->instance >= 0 && (text_begins(one->uuid, token) || has_old_name(one, token));
    if (text_begins(token, "GPU-"))
        return text_begins(one->instance >= 0 ? one->parent : one->uuid, token);
    number = strtol(token, &end, 10);
    return end != token && number >= 0 && (unsigned long)number == one->index;
}

static const char *owner(const struct gpu *one)
{
    return one->instance >= 0 ? one->parent : one->uuid;
}

/* How many devices the token names; 0: none, or it fits more than one GPU's name. */
static size_t count_named(const struct gpus *g, const char *token)
{
    const bool mig = text_begins(token, "MIG-");
    const struct gpu *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++) {
        if (!is_named(&g->v[i], token))
            continue;
        if (first && (mig || strcmp(owner(first), owner(&g->v[i])) != 0))
            return 0;
        first = &g->v[i];
        n++;
    }
    return n;
}

static int add_named(const struct gpus *g, const char *token, struct gpus *out, bool *twice,
                     struct err *err)
{
    for (size_t i = 0; i < g->n; i++) {
        if (!is_named(&g->v[i], token))
            continue;
        if (gpus_find(out, g->v[i].uuid))
            *twice = true;
        else if (gpus_add(out, &g->v[i], err) < 0)
            return -1;
    }
    return 0;
}

/* 'G', 'M' or '0': all tokens of a list must be of the first one's kind. */
static char kind_of(const char *token)
{
    return text_begins(token, "GPU-") ? 'G' : text_begins(token, "MIG-") ? 'M' : '0';
}

static int choose(const struct gpus *g, const char *visible, struct gpus *out,
                  char stopped[static TOKEN], struct err *err)
{
    char token[TOKEN], kind = '\0';
    bool twice = false;

    stopped[0] = '\0';
    while (next_token(&visible, token)) {
        if (!kind)
            kind = kind_of(token);
        if (kind_of(token) != kind || count_named(g, token) == 0) {
            snprintf(stopped, TOKEN, "%s", token);
            break;
        }
        if (add_named(g, token, out, &twice, err) < 0)
            return -1;
    }
    if (twice) {
        out->n = 0;
        snprintf(stopped, TOKEN, "a device that it names twice");
    }
    return 0;
}

/* Sets g->why: why no device is left. */
static void say_why(struct gpus *g, const char *visible, const char *stopped)
{
    if (stopped[0])
        snprintf(g->why, sizeof g->why,
                 "CUDA_VISIBLE_DEVICES=%.100s leaves none of %u GPUs (at %.100s)", visible, g->all,
                 stopped);
    else
        snprintf(g->why, sizeof g->why,
                 "CUDA_VISIBLE_DEVICES is empty: none of %u GPUs is to be used", g->all);
}

int inherited_mask_apply(struct gpus *g, const char *visible, struct err *err)
{
    char stopped[TOKEN], driver[sizeof g->driver];
    struct gpus out = { 0 };
    struct gpus old = *g;

    g->all = (unsigned)g->n;
    if (!visible || g->n == 0)
        return 0;
    if (choose(g, visible, &out, stopped, err) < 0) {
        gpus_release(&out);
        return -1;
    }
    memcpy(driver, g->driver, sizeof driver);
    *g = out;
    g->all = (unsigned)old.n;
    g->numbered = old.numbered;
    memcpy(g->driver, driver, sizeof driver);
    if (g->n == 0)
        say_why(g, visible, stopped);
    free(old.v);
    return 0;
}
