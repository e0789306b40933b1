/* SPDX-License-Identifier: BSD-3-Clause */
/* Any allocation may fail: then there is a complete plan, or none and an error text. */
#include "base/buf.h"
#include "magics/plan.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static const char *const cells[] = {
    "%%distribute -n 4 -r 0-2 --merge prefix --into x --capture a,b --env K=V --cwd / --init gloo\nprint(1)\n",
    "%distribute -m mod 'a b' c",
    "%push a, b -r 1",
    "%distribute?",
    "%%distribute --merge foo\n1",
    "%%distribute -n 2 -r 9\n1",
};

static bool parse_survives(const char *cell, long nth)
{
    struct err err = { "" };
    struct slice line;
    struct plan plan;
    bool failed;

    if (!plan_peek(slice_text(cell), &line))
        return false;
    alloc_fail_at(nth);
    failed = plan_parse(slice_text(cell), line, &plan, &err) < 0;
    ok(failed == (err.text[0] != '\0'), "allocation %ld of %s: %s", nth, cell, err.text);
    if (!failed)
        plan_release(&plan);
    failed = alloc_failed();
    alloc_fail_at(-1);
    return failed;
}

static bool complete_survives(const char *cell, long nth)
{
    struct buf out = BUF_INIT;
    size_t start;
    bool failed;
    int rc;

    alloc_fail_at(nth);
    rc = complete_cell(slice_text(cell), strlen(cell), 3, &out, &start);
    ok(rc <= 0 ? out.n == 0 : out.n > 0, "completion leaves no trace of what failed");
    failed = alloc_failed();
    alloc_fail_at(-1);
    buf_release(&out);
    return failed;
}

int main(void)
{
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        for (long nth = 0; parse_survives(cells[i], nth); nth++)
            ;
    for (long nth = 0; complete_survives("%%distribute -n 4 --merge ", nth); nth++)
        ;
    return plan_done();
}
