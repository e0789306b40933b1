/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/rows.h. */
#include "base/rows.h"

#include <stdlib.h>

#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

struct row {
    uint16_t other;
    uint32_t number;
};

struct table {
    struct row *row;
    size_t n, room;
};

static uint64_t number_of(const void *rows, size_t i)
{
    return ((const struct row *)rows)[i].number;
}

static size_t place(const struct table *t, uint64_t number)
{
    return rows_place(t->row, t->n, number_of, number);
}

static int add(struct table *t, uint32_t number)
{
    const size_t at = place(t, number);
    struct row *row = rows_insert(&t->row, &t->n, &t->room, sizeof *row, at);

    if (!row)
        return -1;
    *row = (struct row){ 7, number };
    return 0;
}

static bool is_sorted(const struct table *t)
{
    for (size_t i = 1; i < t->n; i++)
        if (t->row[i - 1].number > t->row[i].number || t->row[i].other != 7)
            return false;
    return true;
}

static void in_any_order(void)
{
    struct table t = { NULL, 0, 0 };
    unsigned wrong = 0;

    is_int(place(&t, 5), 0, "in an empty table the place is its beginning");
    for (uint32_t i = 0; i < 200; i++)
        wrong += add(&t, i * 77 % 200 * 2) < 0 || !is_sorted(&t);
    ok(wrong == 0 && t.n == 200 && t.room == 256, "200 rows, sorted at each step");
    for (uint32_t i = 0; i < 200; i++)
        wrong += place(&t, 2 * i) != i || place(&t, 2 * i + 1) != i + 1;
    is_int(wrong, 0, "each is found, and where those between belong");
    is_int(place(&t, UINT64_MAX), 200, "larger ones belong behind all");
    for (uint32_t i = 0; i < 200; i += 2)
        rows_remove(t.row, &t.n, sizeof *t.row, place(&t, 2 * i));
    ok(t.n == 100 && is_sorted(&t) && t.row[0].number == 2 && t.row[99].number == 398,
       "every other one removed");
    while (t.n > 0)
        rows_remove(t.row, &t.n, sizeof *t.row, t.n - 1);
    ok(add(&t, 9) == 0 && t.n == 1 && t.row[0].number == 9, "emptied from the end, and used again");
    ok(add(&t, 9) == 0 && place(&t, 9) == 0, "of several with one number the first is found");
    free(t.row);
}

static void memory_is_out(void)
{
    struct table t = { NULL, 0, 0 };
    size_t n = 4, room = 4;
    char *rows = NULL;

    alloc_fail_at(0);
    ok(add(&t, 1) < 0 && t.n == 0 && t.room == 0, "no first row");
    for (uint32_t i = 0; i < 4; i++)
        if (add(&t, i) < 0)
            abort();
    alloc_fail_at(0);
    ok(add(&t, 4) < 0 && t.n == 4 && t.room == 4 && is_sorted(&t),
       "no fifth, and the four are there");
    alloc_fail_at(-1);
    ok(!rows_insert(&rows, &n, &room, SIZE_MAX / 4, 0) && n == 4 && room == 4,
       "nor more than can be counted");
    free(t.row);
}

int main(void)
{
    in_any_order();
    memory_is_out();
    return plan_done();
}
