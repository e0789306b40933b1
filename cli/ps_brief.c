/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/ps_brief.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/ps_table.h"

#define FORM         1                   /* of what is printed; docs/machines.md describes it */
#define NOTEBOOK_MAX 1024u               /* characters of a notebook's name: its last ones */
#define ON_MAX       256u                /* characters of what stands behind --on: its first ones */
#define COUNT_MAX    1000000u            /* no kernel has more ranks */
#define MEMORY_MAX   (UINT64_C(1) << 50) /* bytes */
#define LATE         1e12                /* seconds that no kernel has run */

/* ---- values that another user has given ---- */

static json_t *count_json(unsigned n)
{
    return json_integer(n < COUNT_MAX ? n : COUNT_MAX);
}

/* Null unless it is a number of seconds. */
static json_t *seconds_json(const json_t *seconds)
{
    const double n = json_number_value(seconds);

    return json_is_number(seconds) && n >= 0 && n < LATE ? json_real(n) : json_null();
}

static json_t *name_json(const char *name)
{
    const struct slice whole = slice_text(name);
    const size_t n = utf8_width(whole);

    return json_string(name + (n > NOTEBOOK_MAX ? utf8_offset(whole, n - NOTEBOOK_MAX) : 0));
}

/* Null: on this machine. */
static json_t *place_json(const json_t *on)
{
    const char *text = json_string_value(on);

    return text ? json_stringn(text, utf8_offset(slice_text(text), ON_MAX)) : json_null();
}

static json_t *user_json(uid_t uid)
{
    char name[33];
    json_t *user = json_string(ps_table_user(name, uid));

    return user ? user : json_sprintf("%lu", (unsigned long)uid); /* a name that is no UTF-8 */
}

/* ---- notebooks ---- */

static const char *state_of(const json_t *content)
{
    if (json_is_false(json_object_get(content, "asked")))
        return "not asked";
    if (!ps_table_answered(content))
        return "no answer";
    if (json_is_object(json_object_get(content, "cell")))
        return "ranks";
    return json_is_true(json_object_get(content, "home_runs")) ? "home" : "idle";
}

static json_t *notebook_json(const struct running_kernel *k, const struct overview *o)
{
    const json_t *cell = json_object_get(o->content, "cell");
    const json_t *count = json_object_get(cell, "count");
    struct ps_sum s = { 0 };

    ps_table_sum(&s, o->content);
    return json_pack(
        "{s:i, s:I, s:o, s:o, s:b, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:O?, s:o, s:o, s:I}", "pid",
        (int)k->pid, "uid", (json_int_t)k->uid, "user", user_json(k->uid), "notebook",
        name_json(o->name), "job", k->job, "state", state_of(o->content), "ranks",
        count_json(s.ranks), "busy", count_json(s.busy), "gpus", count_json(s.gpus), "on",
        place_json(json_object_get(json_object_get(o->content, "table"), "on")), "memory",
        (json_int_t)(s.memory < MEMORY_MAX ? s.memory : MEMORY_MAX), "idle",
        seconds_json(json_object_get(o->content, "idle")), "cell",
        json_is_integer(count) && json_integer_value(count) >= 0 ? count : NULL, "running",
        seconds_json(json_object_get(cell, "seconds")), "version",
        place_json(json_object_get(o->content, "version")), "seconds", (json_int_t)k->seconds);
}

static json_t *notebooks_json(const struct kernels *k, const struct overview *of)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < k->n; i++)
        if (json_array_append_new(list, notebook_json(&k->of[i], &of[i])) < 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

/* Who starts thousands shall not fill what others read. */
static size_t left_out(const struct kernels *k)
{
    size_t n = 0;

    for (size_t i = 0; i < k->n_more; i++)
        n += k->more[i].n;
    return n;
}

/* ---- cards ---- */

static json_t *holder_json(const json_t *holder, const struct kernels *k)
{
    const json_t *uid = json_object_get(holder, "uid");
    const long pid = (long)json_integer_value(json_object_get(holder, "pid"));
    const size_t i = ps_table_kernel_of(k, pid);

    return json_pack("{s:I, s:O?, s:o, s:o}", "pid", (json_int_t)pid, "uid", uid, "user",
                     json_is_integer(uid) ? user_json((uid_t)json_integer_value(uid)) : json_null(),
                     "notebook", i < k->n ? json_integer(k->of[i].pid) : json_null());
}

static json_t *holders_json(const json_t *holders, const struct kernels *k)
{
    json_t *list = json_array();
    const json_t *one;
    size_t i;

    json_array_foreach (holders, i, one)
        if (list && json_array_append_new(list, holder_json(one, k)) < 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

static json_t *card_json(const json_t *card, const struct kernels *k, const struct overview *of)
{
    const json_t *held = json_object_get(card, "held"), *holders = json_object_get(held, "holders");
    const json_t *first = json_object_get(json_array_get(holders, 0), "pid");
    const size_t at = ps_table_kernel_of(k, (long)json_integer_value(first));

    return json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:b, s:O?, s:o, s:o, s:i}", "gpu",
                     json_object_get(card, "label"), "uuid", json_object_get(card, "uuid"), "name",
                     json_object_get(card, "name"), "use", json_object_get(card, "use"), "used",
                     json_object_get(card, "used"), "total", json_object_get(card, "total"), "held",
                     json_is_object(held), "since", json_object_get(held, "since"), "idle",
                     at < k->n ? seconds_json(json_object_get(of[at].content, "idle"))
                               : json_null(),
                     "holders", holders_json(holders, k), "programs",
                     (int)json_array_size(json_object_get(card, "others")));
}

static json_t *cards_json(const json_t *cards, const struct kernels *k, const struct overview *of)
{
    json_t *list = json_array();
    const json_t *one;
    size_t i;

    json_array_foreach (cards, i, one)
        if (list && json_array_append_new(list, card_json(one, k, of)) < 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

json_t *ps_brief(const struct kernels *k, const struct overview *of, const json_t *cards,
                 bool users)
{
    return json_pack("{s:i, s:b, s:o, s:I, s:o}", "form", FORM, "all_users", users, "notebooks",
                     notebooks_json(k, of), "left_out", (json_int_t)left_out(k), "gpus",
                     cards_json(cards, k, of));
}
