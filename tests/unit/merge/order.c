/* SPDX-License-Identifier: BSD-3-Clause */
/* In any schedule nothing is lost, no line is broken, and each rank's text keeps its order.
 * Schedules come from a small generator, so that each run tries the same. */
#include "tests/unit/merge/fixture.h"

#define RANKS 5u

struct world {
    struct fixture f;
    uint32_t state;
    struct buf fed[RANKS][2]; /* what each rank printed, without newlines */
    bool bytes;               /* pieces are cut anywhere, in characters too */
};

static uint32_t next(struct world *w, uint32_t below)
{
    w->state = w->state * 1664525u + 1013904223u;
    return (w->state >> 8) % below;
}

static void add(struct buf *b, const char *p, size_t n)
{
    if (buf_add(b, p, n) < 0)
        abort();
}

/* A few words, so that ranks often print the same; now and then a long one. */
static void some_text(struct world *w, struct buf *out)
{
    static const char *const words[] = {
        "epoch", "loss \xc3\xa4", "\xe2\x82\xac", "", "\xf0\x9f\x98\x80", "]", "[1] x", "┌", "│",
        "└"
    };

    for (uint32_t k = next(w, 4); k > 0; k--) {
        const char *word = words[next(w, sizeof words / sizeof words[0])];

        add(out, word, strlen(word));
    }
    if (next(w, 60) == 0)
        for (uint32_t k = 0; k < 2000 + next(w, 20000); k++)
            add(out, "z", 1);
}

static void feed(struct world *w, unsigned rank, unsigned stream, struct slice text)
{
    struct err err = { "" };
    const bool whole = text.n && text.p[text.n - 1] == '\n';

    if (merge_lines(w->f.m, rank, stream, whole ? 0 : LINES_WITHIN, text, &err) < 0)
        ok(false, "lines are taken: %s", err.text);
}

static void print_something(struct world *w, unsigned rank, unsigned stream)
{
    struct buf text = BUF_INIT;
    size_t cut;

    for (uint32_t k = 1 + next(w, 4); k > 0; k--) {
        some_text(w, &text);
        if (k > 1 || next(w, 4) || !w->bytes)
            add(&text, "\n", 1);
    }
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] != '\n')
            add(&w->fed[rank][stream - 1], text.p + i, 1);
    cut = w->bytes && text.n ? next(w, (uint32_t)text.n + 1) : text.n;
    feed(w, rank, stream, slice_of(text.p, cut));
    if (cut < text.n)
        feed(w, rank, stream, slice_of(text.p + cut, text.n - cut));
    buf_release(&text);
}

static void step(struct world *w)
{
    const unsigned rank = next(w, RANKS);
    struct err err = { "" };

    switch (next(w, 12)) {
    case 0:
        fixture_wait(&w->f, next(w, 80));
        break;
    case 1:
        fixture_wait(&w->f, next(w, 4));
        break;
    case 2:
        if (next(w, 20) == 0 && merge_flush_rank(w->f.m, rank, &err) < 0)
            ok(false, "a rank is flushed");
        break;
    default:
        print_something(w, rank, 1 + (next(w, 5) == 0));
        break;
    }
}

/* Appends what is shown for a rank, by the labels, without newlines. */
static void shown_of(const char *text, unsigned rank, struct buf *out)
{
    while (*text) {
        const size_t n = strcspn(text, "\n");
        const char *label = strchr(text, ']');
        struct ranks who = RANKS_INIT;
        char spec[64] = "";

        if (text[0] != '[' || !label || label[1] != ' ') {
            ok(false, "every line starts with a label: %.60s", text);
            return;
        }
        snprintf(spec, sizeof spec, "%.*s", (int)(label - text - 1), text + 1);
        if (ranks_parse(&who, spec, RANKS, NULL) < 0)
            ok(false, "labels are rank sets: %s", spec);
        if (ranks_has(&who, rank))
            add(out, label + 2, n - (size_t)(label - text) - 2);
        ranks_release(&who);
        text += n + (text[n] == '\n');
    }
}

static bool same_for_all(struct world *w)
{
    bool same = true;

    for (unsigned r = 0; r < RANKS; r++)
        for (unsigned k = 0; k < 2; k++) {
            struct buf shown = BUF_INIT;

            shown_of(w->f.got[k].p, r, &shown);
            same = same && slice_equal(buf_slice(&shown), buf_slice(&w->fed[r][k]));
            buf_release(&shown);
        }
    return same;
}

static bool schedule(enum plan_merge mode, uint32_t seed, bool bytes)
{
    struct world w = { .state = seed, .bytes = bytes };
    bool same;

    fixture_init(&w.f, mode, RANKS);
    for (int k = 0; k < 400; k++)
        step(&w);
    fixture_flush(&w.f);
    same = same_for_all(&w) && merge_waiting(w.f.m) == 0 && merge_due_ns(w.f.m) == UINT64_MAX;
    for (unsigned r = 0; r < RANKS; r++) {
        buf_release(&w.fed[r][0]);
        buf_release(&w.fed[r][1]);
    }
    fixture_release(&w.f);
    return same;
}

static void check(enum plan_merge mode, bool bytes, const char *sentence)
{
    unsigned good = 0;

    for (uint32_t seed = 1; seed <= 40; seed++)
        good += schedule(mode, seed * 7919, bytes);
    is_int(good, 40, "%s", sentence);
}

int main(void)
{
    check(PLAN_FOLD, false, "fold: whole lines, in 40 schedules of 400 steps");
    check(PLAN_FOLD, true, "fold: lines and characters in pieces");
    check(PLAN_PREFIX, false, "prefix: whole lines");
    check(PLAN_PREFIX, true, "prefix: lines and characters in pieces");
    return plan_done();
}
