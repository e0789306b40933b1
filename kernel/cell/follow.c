/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks follow home's environment, options and reloaded modules. CAPTURED describes them. A rank
 * for which they have changed gets FOLLOW before anything else of the cell. */
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_before.h"

#define KNOWN "%home" /* a key in rank.known; no variable can have this name */

/* The cell's ranks, on home's machine (near) or on others, that were told something else. */
static int lacking(const struct cell *c, const char *home, bool near, struct ranks *out)
{
    RANKS_EACH (k, &c->to) {
        const struct rank *r = &c->group->rank[k];

        if ((r->node == NODE_HERE) != near || strcmp(text_field(r->known, KNOWN), home) == 0)
            continue;
        if (ranks_add(out, (unsigned)k) < 0)
            return -1;
    }
    return 0;
}

static void note_sent(struct cell *c, const char *home, const struct ranks *sent)
{
    json_t *text = json_string(home);

    RANKS_EACH (k, sent)
        if (json_object_set(c->group->rank[k].known, KNOWN, text) < 0)
            log_warn("follow", "out of memory: rank %ld will be told again", k);
    json_decref(text);
}

static int tell(struct cell *c, const char *home, bool near)
{
    struct span m = { .kind = SPAN_FOLLOW, .cell = c->id };
    struct ranks to = RANKS_INIT;
    int rc = lacking(c, home, near, &to);

    m.v[F_FOLLOW_HOME].s = slice_text(home);
    m.v[F_FOLLOW_NEAR].u64 = near;
    if (rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if (ranks_count(&to) && (rc = cell_send_ranks(c, &to, &m)) == 0)
        note_sent(c, home, &to);
    ranks_release(&to);
    return rc;
}

int follow_tell(struct cell *c)
{
    const char *home = text_field(c->prep.captured, "home");

    if (c->plan.kind == PLAN_PULL) /* runs no code on ranks */
        return 0;
    return tell(c, home, true) < 0 ? -1 : tell(c, home, false);
}
