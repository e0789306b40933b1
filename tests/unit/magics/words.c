/* SPDX-License-Identifier: BSD-3-Clause */
/* Words, durations, and the tables of options. With "rows" as its argument it prints the tables,
 * for documented.sh. */
#include "base/duration.h"
#include "base/settings.h"
#include "magics/option.h"
#include "tests/unit/tap.h"

static void check_split(const char *line, const char *want)
{
    struct tokens t;
    struct err err = { "" };
    char got[256] = "";

    if (tokens_split(slice_text(line), false, &t, &err) < 0)
        snprintf(got, sizeof got, "error: %.200s", err.text);
    for (size_t i = 0; i < t.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? "|" : "", t.v[i].text);
    is_text(got, want, "%s splits", line);
    tokens_release(&t);
}

static void words_split_as_in_a_shell(void)
{
    check_split("", "");
    check_split("  a   b\tc ", "a|b|c");
    check_split("'a b' \"c d\" e' 'f", "a b|c d|e f");
    check_split("'' x", "|x");
    check_split("\"a\\\"b\" 'c\\d' e\\ f", "a\"b|c\\d|e f");
    check_split("\"c:\\dir\"", "c:\\dir");
    check_split("a \\\n b", "a|b");
    check_split("a\\\nb", "a|b");
    check_split("a\\", "a\\");
    check_split("'a", "error: 'a: the quote is not closed; add '");
    check_split("\"a\nb", "error: \"a?b: the quote is not closed; add \"");
}

static void shown_words_are_short_and_on_one_line(void)
{
    char shown[TOKEN_SHOWN];
    char word[400];

    memset(word, 'x', sizeof word);
    word[399] = '\0';
    ok(strlen(token_shown(shown, word)) < TOKEN_SHOWN, "a long word is cut");
    for (size_t i = 0; i < 398; i += 2)
        memcpy(word + i, "\xc3\xa4", 2);
    token_shown(shown, word);
    is_int((strlen(shown) - 3) % 2, 0, "and no character with it");
    is_text(token_shown(shown, "a\nb\x1b"), "a?b?", "control characters are not shown");
}

static void check_time(const char *text, int64_t ms)
{
    uint64_t ns = 0;
    const int rc = duration_read(text, &ns);

    is_int(rc < 0 ? -1 : (int64_t)(ns / 1000000), ms, "the duration '%s'", text);
}

static void durations(void)
{
    check_time("10", 10000);
    check_time("10s", 10000);
    check_time("1.5m", 90000);
    check_time("5min", 300000);
    check_time("2h", 7200000);
    check_time("500ms", 500);
    check_time(".5", 500);
    check_time("0", 0);
    check_time("0.0000000000001", 0);
    check_time("999999999h", -1);
    check_time("9999999999", -1);
    check_time("1h30m", -1);
    check_time("", -1);
    check_time(".", -1);
    check_time("-1", -1);
    check_time("1e3", -1);
    check_time("10 s", -1);
}

static bool is_command(const struct magic *m, const char *name)
{
    for (const struct command *c = m->commands; c && c->name; c++)
        if (strcmp(c->name, name) == 0)
            return true;
    return false;
}

static void merges_are_the_settings(void)
{
    const char *const *set = setting_rows[SETTING_MERGE].words;
    const char *attached;
    const struct option *o = option_find(&magic_distribute, true, "--merge", &attached);

    for (size_t i = 0; o->words[i] || set[i]; i++)
        is_text(o->words[i], set[i], "a word of --merge is one of CELLSPAN_MERGE, too");
}

static void tables_are_sound(void)
{
    for (size_t i = 0; magic_get(i); i++) {
        const struct magic *m = magic_get(i);
        size_t rows = 0;

        for (const struct option *o = m->options; !option_is_last(o); o++, rows++) {
            const char *name = o->name ? o->name : "-m";
            const char *attached;
            char word[40];

            ok(o->help && strlen(o->help) < 70, "%s of %s has a help line", name, m->name);
            ok(o->at < sizeof(struct plan), "and a field");
            ok(!o->command || is_command(m, o->command), "what it is of is a command");
            if (!o->name)
                continue;
            snprintf(word, sizeof word, "--%s", o->name);
            ok(option_find(m, !(o->flags & OPTION_LINE), word, &attached) == o,
               "is found by its name");
            if (o->excludes) {
                snprintf(word, sizeof word, "--%s", o->excludes);
                ok(option_find(m, true, word, &attached) != NULL, "what it excludes is there");
            }
        }
        ok(rows <= OPTIONS_MAX, "the table of %s fits", m->name);
    }
}

/* "distribute\toption\tnproc\tcell line run": a line for each row, and where it is of use. */
static void print_rows(void)
{
    const struct magic *m;

    for (size_t i = 0; (m = magic_get(i)); i++) {
        printf("%s\tmagic\n", m->name);
        for (const struct command *c = m->commands; c && c->name; c++)
            printf("%s\tcommand\t%s\n", m->name, c->name);
        for (const struct option *o = m->options; !option_is_last(o); o++)
            if (o->name)
                printf("%s\toption\t%s\t%s%s%s\n", m->name, o->name,
                       m->cell && option_fits(o, true) ? " cell" : "",
                       option_fits(o, false) ? " line" : "",
                       option_fits(o, false) && !(o->flags & OPTION_NOTEBOOK) ? " run" : "");
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "rows") == 0) {
        print_rows();
        return 0;
    }
    words_split_as_in_a_shell();
    shown_words_are_short_and_on_one_line();
    durations();
    tables_are_sound();
    merges_are_the_settings();
    return plan_done();
}
