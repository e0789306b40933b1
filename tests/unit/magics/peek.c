/* SPDX-License-Identifier: BSD-3-Clause */
/* Which cells are cellspan's, and what Tab and inspection find in them. */
#include "base/buf.h"
#include "magics/plan.h"
#include "tests/unit/tap.h"

static const struct cell {
    const char *text;
    const char *line; /* NULL: not ours */
} cells[] = {
    { "%%distribute -n 4\nx", " -n 4" },
    { "\n  \n# note\n%%distribute -n 4\nx", " -n 4" },
    { "%%distribute", "" },
    { "%%distribute\r\nx", "\r" },
    { " %%distribute\nx", NULL },
    { "%%distributed\nx", NULL },
    { "%%distribute-n 4\nx", NULL },
    { "%%push x\n", NULL },
    { "%%time\n%%distribute\nx", NULL },
    { "x = 1\n%%distribute\nx", NULL },
    { "%push x", " x" },
    { "%push x\n\n# done\n  \n", " x" },
    { "%push x\ny", NULL },
    { "y\n%push x", NULL },
    { "%pushd x", NULL },
    { "%ranks", "" },
    { "%ranks?", "" },
    { "%distribute?\n", "" },
    { "%%distribute?\n", "" },
    { "%%distribute?\nx", NULL },
    { "?%ranks", "" },
    { "%ranks?x", NULL },
    { "%distribute train.py --lr 1", " train.py --lr 1" },
    { "%distribute a.py \\\n --lr 1\n", " a.py \\\n --lr 1" },
    { "%distribute a.py \\\\\nx", NULL },
    { "", NULL },
    { "\n\n", NULL },
    { "# only\n", NULL },
    { "%", NULL },
    { "%%", NULL },
    { "x = %pull loss", NULL },
    { "%time 1", NULL },
};

static void the_first_line_decides(void)
{
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        struct slice line = { "", 0 };
        const int rc = plan_peek(slice_text(cells[i].text), &line);

        is_int(rc, cells[i].line != NULL, "%s %s", cells[i].text,
               cells[i].line ? "is ours" : "is home's");
        if (rc && cells[i].line)
            ok(slice_is(line, cells[i].line), "its line");
    }
}

static void bodies_keep_their_line_numbers(void)
{
    const char *cell = "\n# a\n%%distribute -n 2\n\nx = 1";
    struct slice line;
    struct plan p;
    struct err err = { "" };

    ok(plan_peek(slice_text(cell), &line) == 1 && plan_parse(slice_text(cell), line, &p, &err) == 0,
       "the cell parses");
    is_text(p.body, "\n\n\n\nx = 1", "x = 1 is on line 5, as in the cell");
    plan_release(&p);
}

/* `|` is the cursor. */
static void check(const char *marked, const char *want, int want_rc)
{
    char cell[256];
    const size_t at = strcspn(marked, "|");
    struct buf out = BUF_INIT;
    size_t start = 0;
    int rc;

    memcpy(cell, marked, at);
    strcpy(cell + at, marked + at + 1);
    rc = complete_cell(slice_text(cell), at, 3, &out, &start);
    is_int(rc, want_rc, "%s is %s", marked, want_rc ? "ours to complete" : "left to home");
    if (rc == 1)
        is_text(out.p, want, "it offers these, from %zu", start);
    else
        is_int(out.n, 0, "and nothing is added");
    buf_release(&out);
}

static void tab_offers_what_fits(void)
{
    check("%%dis|", "[\"%%distribute\"]", 1);
    check("%dist|", "[\"%distribute\"]", 1);
    check("%rank|", "[\"%ranks\"]", 1);
    check("x\n%pul|", "[\"%pull\"]", 1);
    check("%p|", NULL, 0);
    check("%tim|", NULL, 0);
    check("dist|", NULL, 0);
    check("%%distribute --me|", "[\"--merge\"]", 1);
    check("%%distribute --n|\nx",
          "[\"--nproc\",\"--nproc-per-node\",\"--no-capture\",\"--no-gpu\",\"--no-code\"]", 1);
    check("%%distribute --merge |", "[\"fold\",\"prefix\",\"rank0\",\"panel\",\"raw\"]", 1);
    check("%%distribute --merge r|", "[\"rank0\",\"raw\"]", 1);
    check("%%distribute --merge=p|", "[\"prefix\",\"panel\"]", 1);
    check("%%distribute --init g|", "[\"gloo\"]", 1);
    check("%%distribute -n g|", "[\"gpu\"]", 1);
    check("%%distribute -r |", "[\"0\",\"1\",\"2\",\"all\"]", 1);
    check("%%distribute -r 0,|", "[\"0\",\"1\",\"2\",\"all\"]", 1);
    check("%%distribute --ranks=1|", "[\"1\"]", 1);
    check("%%distribute --gather --ga|", "[]", 1);
    check("%%distribute --timeout 1|", "[]", 1);
    check("%%distribute --capture a|", NULL, 0);
    check("%%distribute --cwd /t|", NULL, 0);
    check("%%distribute -n 2\nxy|", NULL, 0);
    check("%distribute -n 2 tr|", NULL, 0);
    check("%distribute -n 2 train.py --|", NULL, 0);
    check(
        "%ranks |",
        "[\"stop\",\"restart\",\"where\",\"check\",\"logs\",\"code\",\"debug\",\"free\",\"--ranks\",\"--continue\",\"--timeout\",\"--cell\",\"--help\"]",
        1);
    check("%%distribute --on |\n1", "[\"local\",\"ssh\",\"slurm\",\"mpi\",\"ray\",\"spark\"]", 1);
    check("%%distribute --on s|\n1", "[\"ssh\",\"slurm\",\"spark\"]", 1);
    check("%%distribute --on ssh:h|\n1", "[]", 1);
    check("%%distribute --gpus |\n1", "[\"own\"]", 1);
    check("%ranks re|", "[\"restart\"]", 1);
    check("%push lo|", NULL, 0);
    check("a = 1\n%push a -|", "[\"--ranks\",\"--help\"]", 1);
    check("%pull a --into x|", NULL, 0);
}

static void offers_start_where_the_word_does(void)
{
    struct buf out = BUF_INIT;
    size_t start = 0;

    is_int(complete_cell(slice_text("%%distribute --merge=p"), 22, 0, &out, &start), 1,
           "a value after = completes");
    is_int(start, 21, "from behind the =");
    buf_clear(&out);
    is_int(complete_cell(slice_text("%%distribute -r 0,1"), 19, 3, &out, &start), 1,
           "a rank after a comma completes");
    is_int(start, 18, "from behind the comma");
    buf_clear(&out);
    is_int(complete_cell(slice_text("%%distribute"), 99, 3, &out, &start), 0,
           "an offset beyond the cell is nowhere");
    buf_release(&out);
}

static void inspection_knows_the_magic(void)
{
    is_text(plan_at(slice_text("%%distribute -n 4\nx"), 5), "distribute", "on its name");
    is_text(plan_at(slice_text("%%distribute -n 4\nx"), 16), "distribute", "on its options");
    is_text(plan_at(slice_text("%%distribute -n 4\nx"), 19), NULL, "not in the body");
    is_text(plan_at(slice_text("x = 1\n%push x\n"), 8), "push", "on a line among others");
    is_text(plan_at(slice_text("x = 1\n%push x\n"), 2), NULL, "not on the others");
}

int main(void)
{
    the_first_line_decides();
    bodies_keep_their_line_numbers();
    tab_offers_what_fits();
    offers_start_where_the_word_does();
    inspection_knows_the_magic();
    return plan_done();
}
