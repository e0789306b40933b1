/* Makes a cell on ranks from a client's request or from a CALL of home; frees cells. */
#include <stdlib.h>
#include <string.h>

#include "kernel/dispatch/private.h"

bool cell_is_ours(struct request *r)
{
    struct slice line;

    return plan_peek(text_slice(request_content(r), "code"), &line) == 1;
}

static struct cell *cell_create(struct notebook *nb, struct request *r, struct slice text)
{
    struct cell *c = calloc(1, sizeof *c);

    if (!c || !(c->from.text = slice_copy(text))) {
        free(c);
        return NULL;
    }
    c->from.text_size = text.n;
    c->nb = nb;
    c->group = nb->group;
    c->id = nb->next.cell++;
    c->from.request = r ? request_ref(r) : NULL;
    c->stop.alike_ns = c->stop.alike_limit_ns = c->stop.disconnect_ns = c->stop.ends.due_ns =
        c->stop.kill_ns = c->stop.list_ns = c->stop.timeout_ns = c->stop.gone_ns =
            c->out.bars.due_ns = c->live.due_ns = c->hang.due_ns = c->prep.room.due_ns = NEVER;
    return c;
}

void cell_destroy(struct cell *c)
{
    if (!c)
        return;
    output_close(c);
    cell_release_members(c);
    if (c->planned)
        plan_release(&c->plan);
    vars_bundles_release(&c->send.ships);
    ranks_release(&c->to);
    ranks_release(&c->send.comparing);
    ranks_release(&c->prep.room.waiting);
    ranks_release(&c->prep.room.keep);
    buf_release(&c->out.bars.text);
    buf_release(&c->out.kept.content);
    rank_logs_free(c->magic.logs);
    group_destroy(c->script_group);
    json_decref(c->prep.captured);
    json_decref(c->magic.table);
    check_free(c->magic.check);
    json_decref(c->bind.expressions);
    json_decref(c->fault.shown);
    disconnect_release(c);
    node_errors_release(c);
    broadcast_release(c);
    free(c->engine.said);
    json_decref(c->fault.said);
    free(c->fault.ename);
    free(c->from.text);
    request_unref(c->from.request);
    free(c);
}

void cell_begin(struct notebook *nb, struct request *r, unsigned count)
{
    struct cell *c = cell_create(nb, r, text_slice(request_content(r), "code"));

    if (!c) {
        nb->ops.reply(nb->ops.arg, r, "execute_reply",
                      &(struct content){ .content = slice_text(NO_MEMORY) });
        nb->ops.status(nb->ops.arg, r, "idle");
        return;
    }
    c->from.count = count;
    c->from.stdin_allowed = request_flag(r, "allow_stdin", true);
    c->from.stop_on_error = request_flag(r, "stop_on_error", true);
    c->from.silent = request_flag(r, "silent", false);
    c->from.store = !c->from.silent && request_flag(r, "store_history", true);
    nb->cell = c;
    cell_steps_begin(c);
}

static void refuse_call(struct notebook *nb, uint64_t call, const char *why)
{
    struct span m = { .kind = SPAN_RETURN, .worker = SPAN_WORKER_HOME, .cell = call };
    struct buf text = BUF_INIT;

    if (text_json(&text, json_pack("{s:s, s:s, s:s, s:[]}", "status", "error", "ename",
                                   "RuntimeError", "evalue", why, "traceback")) == 0) {
        m.v[F_RETURN_STATUS].s = slice_text("error");
        m.v[F_RETURN_CONTENT].s = buf_slice(&text);
        notebook_send(nb, SPAN_WORKER_HOME, &m);
    }
    buf_release(&text);
}

void cell_begin_call(struct notebook *nb, const struct span *m)
{
    struct cell *c;

    question_over(nb);
    if (nb->cell) {
        refuse_call(nb, m->cell, "another cell is running on the ranks");
        return;
    }
    if (!(c = cell_create(nb, nb->home.parent, m->v[F_CALL_TEXT].s))) {
        refuse_call(nb, m->cell, "the kernel is out of memory");
        return;
    }
    c->from.is_call = c->from.wants_return = true;
    c->from.call = m->cell;
    c->from.call_flags = m->v[F_CALL_FLAGS].u64;
    c->from.count = nb->home.executing ? nb->home.executing->count : nb->count;
    c->from.stdin_allowed = nb->home.executing &&
                            request_flag(nb->home.executing->r, "allow_stdin", true);
    nb->cell = c;
    cell_steps_begin(c);
}
