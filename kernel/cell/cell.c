/* A cell on ranks: from its text to its plan, its members, and its clock. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rows.h"
#include "kernel/cell/check.h"
#include "kernel/cell/text.h"

bool cell_is_ours(struct request *r)
{
    struct slice line;

    return plan_peek(text_slice(request_content(r), "code"), &line) == 1;
}

static struct cell *cell_create(struct notebook *nb, struct request *r, struct slice text)
{
    struct cell *c = calloc(1, sizeof *c);

    if (!c || !(c->text = malloc(text.n + 1))) {
        free(c);
        return NULL;
    }
    memcpy(c->text, text.p, text.n);
    c->text[text.n] = '\0';
    c->text_size = text.n;
    c->nb = nb;
    c->group = nb->group;
    c->id = nb->next_cell++;
    c->request = r ? request_ref(r) : NULL;
    c->judge_ns = c->judge_limit_ns = c->sever_ns = c->ends.due_ns = c->absent.due_ns = c->kill_ns =
        c->list_ns = c->timeout_ns = c->start_ns = c->progress_ns = c->live_ns = c->look_ns =
            c->hang_ns = c->gone_ns = NEVER;
    return c;
}

static void members_release(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++) {
        json_decref(c->member[k].error);
        json_decref(c->member[k].result);
        free(c->member[k].note);
        free(c->member[k].stack);
        free(c->member[k].place);
    }
    free(c->member);
    c->member = NULL;
    c->n = 0;
}

void cell_destroy(struct cell *c)
{
    if (!c)
        return;
    stream_close(c);
    members_release(c);
    if (c->planned)
        plan_release(&c->plan);
    shipments_release(&c->ships);
    ranks_release(&c->to);
    ranks_release(&c->comparing);
    buf_release(&c->progress);
    buf_release(&c->kept.content);
    logs_free(c->logs);
    group_destroy(c->passing);
    json_decref(c->captured);
    json_decref(c->table);
    check_free(c->check);
    json_decref(c->expressions);
    json_decref(c->error);
    sever_release(c);
    absent_release(c);
    cast_release(c);
    free(c->said);
    json_decref(c->failed);
    free(c->failed_name);
    free(c->text);
    request_unref(c->request);
    free(c);
}

void cell_fail(struct cell *c, const char *ename, const char *format, ...)
{
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_trim(text);
    cell_fail_in_words(c, ename, "", slice_text(text));
}

void cell_fail_in_words(struct cell *c, const char *ename, const char *head, struct slice text)
{
    c->bad = true;
    if (!c->failed) {
        c->failed = text_joined(head, text);
        c->failed_name = strdup(ename);
    }
    if (c->state == CELL_ENGINE)
        engine_give_up(c->nb);
    if (c->state == CELL_RUNNING && cell_unfinished(c))
        judge_stop(c);
    else
        finish_now(c);
}

int cell_send(struct cell *c, const uint32_t *workers, size_t n, const struct span *m)
{
    struct err err = { "" };

    if (notebook_send_to(c->nb, workers, n, m, &err) == 0)
        return 0;
    cell_fail(c, "RuntimeError", "%s", err.text);
    return -1;
}

int cell_send_node(struct cell *c, unsigned node, const struct span *m)
{
    struct err err = { "" };

    if (notebook_send_node(c->nb, node, m, &err) == 0)
        return 0;
    cell_fail(c, "RuntimeError", "%s", err.text);
    return -1;
}

int cell_send_home(struct cell *c, const struct span *m)
{
    const uint32_t home = SPAN_WORKER_HOME;

    return cell_send(c, &home, 1, m);
}

static bool wants_expansion(struct slice line)
{
    return memchr(line.p, '{', line.n) || memchr(line.p, '$', line.n);
}

static void ask_expansion(struct cell *c, struct slice line)
{
    struct span m = { .kind = SPAN_REQUEST, .worker = SPAN_WORKER_HOME, .cell = c->id };
    struct buf content = BUF_INIT;

    c->state = CELL_EXPANDING;
    if (buf_add_text(&content, "{\"text\":") < 0 || jupyter_quote(&content, line) < 0 ||
        buf_add_text(&content, "}") < 0) {
        buf_release(&content);
        cell_fail(c, "RuntimeError", "out of memory");
        return;
    }
    m.v[F_REQUEST_TYPE].s = slice_text("cellspan_expand");
    m.v[F_REQUEST_CONTENT].s = buf_slice(&content);
    m.v[F_REQUEST_HEADER].s = m.v[F_REQUEST_METADATA].s = slice_text("{}");
    (void)cell_send_home(c, &m);
    buf_release(&content);
}

static void cell_start(struct cell *c)
{
    struct slice line = { NULL, 0 };

    c->nb->cell = c;
    if (plan_peek(slice_of(c->text, c->text_size), &line) != 1)
        cell_fail(c, "UsageError", "that is no cell of cellspan's magics");
    else if (!c->is_call && wants_expansion(line)) /* of a call IPython has expanded it already */
        ask_expansion(c, line);
    else
        cell_expanded(c, line);
}

void cell_begin(struct notebook *nb, struct request *r, unsigned count)
{
    struct cell *c = cell_create(nb, r, text_slice(request_content(r), "code"));

    if (!c) {
        nb->doors.reply(nb->doors.arg, r, "execute_reply",
                        &(struct parcel){ .content = slice_text(NO_MEMORY) });
        nb->doors.status(nb->doors.arg, r, "idle");
        return;
    }
    c->count = count;
    c->stdin_allowed = request_flag(r, "allow_stdin", true);
    c->stop_on_error = request_flag(r, "stop_on_error", true);
    c->silent = request_flag(r, "silent", false);
    c->store = !c->silent && request_flag(r, "store_history", true);
    cell_start(c);
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
    if (!(c = cell_create(nb, nb->home_parent, m->v[F_CALL_TEXT].s))) {
        refuse_call(nb, m->cell, "the kernel is out of memory");
        return;
    }
    c->is_call = c->wants_return = true;
    c->call = m->cell;
    c->call_flags = m->v[F_CALL_FLAGS].u64;
    c->count = nb->executing ? nb->executing->count : nb->count;
    c->stdin_allowed = nb->executing && request_flag(nb->executing->r, "allow_stdin", true);
    cell_start(c);
}

static void cell_help(struct cell *c)
{
    struct buf text = BUF_INIT;

    if (buf_addf(&text, "%s%s", c->plan.help,
                 c->plan.help[0] && c->plan.help[strlen(c->plan.help) - 1] == '\n' ? "" : "\n") ==
        0)
        publish_stream(c->nb, c->request, 1, buf_slice(&text));
    buf_release(&text);
    finish_now(c);
}

/* A script has ranks of its own, beside the notebook's, for as long as it runs. */
static int group_pass(struct cell *c, struct err *err)
{
    struct group *g = group_create(c->nb->group->name, err);

    if (!g)
        return -1;
    c->group = c->passing = g;
    return 0;
}

void cell_expanded(struct cell *c, struct slice line)
{
    struct err err = { "" };

    if (plan_parse(slice_of(c->text, c->text_size), line, &c->plan, &err) < 0) {
        cell_fail(c, "UsageError", "%s", err.text);
        return;
    }
    c->planned = true;
    if (c->plan.timeout_ns)
        c->timeout_ns = notebook_now(c->nb) + c->plan.timeout_ns;
    if (c->plan.kind == PLAN_HELP)
        cell_help(c);
    else if (c->plan.kind == PLAN_RANKS)
        manage_ranks(c);
    else if (c->plan.kind == PLAN_SCRIPT && group_pass(c, &err) < 0)
        cell_fail(c, "RuntimeError", "%s", err.text);
    else
        gather_begin(c);
}

bool cell_is_shown(const struct cell *c)
{
    return !c->is_call || (c->call_flags & CALL_SHOWN);
}

/* Home shows and keeps the value of a magic in the middle of a cell as it does any magic's, so it
 * has to be sent. */
bool cell_is_piped(const struct cell *c)
{
    return !c->is_call && request_flag(c->request, "cellspan_stdin", false);
}

bool cell_wants_value(const struct cell *c)
{
    return !c->is_call || (c->call_flags & CALL_VALUE) || c->plan.into || c->plan.gather;
}

static uint64_t rank_of(const void *members, size_t i)
{
    return ((const struct member *)members)[i].rank;
}

/* Members are in the order of their ranks. */
static struct member *member_of(const struct cell *c, unsigned rank)
{
    const size_t at = rows_place(c->member, c->n, rank_of, rank);

    return at < c->n && c->member[at].rank == rank ? &c->member[at] : NULL;
}

struct member *cell_worker(struct cell *c, uint32_t worker)
{
    const struct rank *r = group_worker(c->group, worker);
    struct member *member = r ? member_of(c, r->number) : NULL;

    return member && member->worker == worker ? member : NULL;
}

int cell_members(struct cell *c)
{
    members_release(c);
    if (!(c->member = calloc(ranks_count(&c->to) + 1, sizeof *c->member)))
        return -1;
    for (long k = ranks_next(&c->to, 0); k >= 0; k = ranks_next(&c->to, (unsigned)k + 1))
        c->member[c->n++] = (struct member){ .rank = (unsigned)k,
                                             .worker = c->group->rank[k].worker };
    return 0;
}

/* Asked after each that ends: the walk goes on where the last one stopped. */
bool cell_unfinished(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++, c->open++) {
        if (c->open >= c->n)
            c->open = 0;
        if (c->member[c->open].state <= MEMBER_RUNNING)
            return true;
    }
    return false;
}

bool cell_lingers(const struct cell *c)
{
    for (unsigned k = 0; c->passing && k < c->passing->size; k++)
        if (c->passing->rank[k].worker)
            return true;
    return false;
}

void cell_tick(struct cell *c, uint64_t now)
{
    stream_tick(c);
    judge_tick(c, now);
    live_tick(c, now);
    hang_tick(c, now);
    cast_tick(c, now);
    logs_tick(c, now);
    manage_look(c);
}

uint64_t cell_due(const struct cell *c)
{
    const uint64_t due[] = { stream_due(c), judge_due(c), c->live_ns, c->look_ns,
                             c->hang_ns,    cast_due(c),  logs_due(c) };
    uint64_t first = NEVER;

    for (size_t k = 0; k < sizeof due / sizeof *due; k++)
        if (due[k] < first)
            first = due[k];
    return first;
}
