/* SPDX-License-Identifier: BSD-3-Clause */
/* A span is opened before the first visible text of a style, so a colour that shows nothing costs
 * nothing. */
#include <stdio.h>
#include <string.h>

#include "kernel/merge/panel_private.h"

#define PARAMS_MAX 32u
#define RGB        0x1000000 /* a colour with this flag has its 24 bits below it */

struct style {
    int fg, bg; /* -1: the default; 0 to 15: a colour of the terminal; else RGB */
    bool bold, underline, inverse;
};

static const struct style plain = { .fg = -1, .bg = -1 };

static bool is_plain(const struct style *s)
{
    return s->fg < 0 && s->bg < 0 && !s->bold && !s->underline && !s->inverse;
}

/* ---- SGR: the numbers of a sequence ESC [ … m ---- */

/* The 256 colours: 16 of the terminal, a cube of 6 * 6 * 6, and 24 greys. */
static int colour_of_index(unsigned k)
{
    static const unsigned char steps[] = { 0, 95, 135, 175, 215, 255 };
    unsigned grey;

    if (k < 16)
        return (int)k;
    if (k > 231) {
        grey = 8 + 10 * ((k < 255 ? k : 255) - 232);
        return (int)(RGB | grey << 16 | grey << 8 | grey);
    }
    k -= 16;
    return RGB | steps[k / 36] << 16 | steps[k / 6 % 6] << 8 | steps[k % 6];
}

/* What follows 38 or 48: 5;index or 2;red;green;blue. Returns how many numbers it took. */
static size_t read_colour(const unsigned *n, size_t count, int *colour)
{
    if (count >= 2 && n[0] == 5) {
        *colour = colour_of_index(n[1]);
        return 2;
    }
    if (count >= 4 && n[0] == 2) {
        *colour = (int)(RGB | (n[1] & 255u) << 16 | (n[2] & 255u) << 8 | (n[3] & 255u));
        return 4;
    }
    return count;
}

static void set_one(struct style *s, unsigned n)
{
    if (n == 0)
        *s = plain;
    else if (n == 1 || n == 22)
        s->bold = n == 1;
    else if (n == 4 || n == 24)
        s->underline = n == 4;
    else if (n == 7 || n == 27)
        s->inverse = n == 7;
    else if ((n >= 30 && n <= 37) || (n >= 90 && n <= 97))
        s->fg = (int)(n >= 90 ? n - 90 + 8 : n - 30);
    else if ((n >= 40 && n <= 47) || (n >= 100 && n <= 107))
        s->bg = (int)(n >= 100 ? n - 100 + 8 : n - 40);
    else if (n == 39)
        s->fg = -1;
    else if (n == 49)
        s->bg = -1;
}

static void set_style(struct style *s, struct slice params)
{
    unsigned n[PARAMS_MAX] = { 0 };
    size_t count = 1;

    for (size_t i = 0; i < params.n; i++) {
        const char c = params.p[i];

        if (c == ';' || c == ':') {
            if (count == PARAMS_MAX)
                break;
            count++;
        } else if (c >= '0' && c <= '9' && n[count - 1] < 10000) {
            n[count - 1] = n[count - 1] * 10 + (unsigned)(c - '0');
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (n[i] == 38 || n[i] == 48)
            i += read_colour(n + i + 1, count - i - 1, n[i] == 38 ? &s->fg : &s->bg);
        else
            set_one(s, n[i]);
    }
}

/* ---- spans ---- */

static const char *const colours[] = { "black", "red",     "green", "yellow",
                                       "blue",  "magenta", "cyan",  "white" };

/* what: "fg" or "bg". The default has a class only where it is exchanged. */
static int add_class(struct buf *out, int colour, bool inverse, const char *what)
{
    if (colour < 0)
        return inverse ? buf_addf(out, "ansi-default-inverse-%s ", what) : 0;
    if (colour & RGB)
        return 0;
    return buf_addf(out, "ansi-%s%s-%s ", colours[colour % 8], colour > 7 ? "-intense" : "", what);
}

static int add_rgb(struct buf *out, int colour, const char *property)
{
    return colour >= 0 && colour & RGB ? buf_addf(out, "%s:#%06x;", property, colour & 0xffffff)
                                       : 0;
}

/* Bold makes a colour the intense one, as terminals have it. */
static int open_span(struct buf *out, const struct style *s)
{
    const int own = s->bold && s->fg >= 0 && s->fg < 8 ? s->fg + 8 : s->fg;
    const int fg = s->inverse ? s->bg : own, bg = s->inverse ? own : s->bg;

    if (buf_add_text(out, "<span class=\"") < 0 || add_class(out, fg, s->inverse, "fg") < 0 ||
        add_class(out, bg, s->inverse, "bg") < 0 ||
        (s->bold && buf_add_text(out, "ansi-bold ") < 0) ||
        (s->underline && buf_add_text(out, "ansi-underline ") < 0))
        return -1;
    if (out->p[out->n - 1] == ' ')
        out->n--;
    if (buf_add_text(out, "\"") < 0)
        return -1;
    if ((fg >= 0 && fg & RGB) || (bg >= 0 && bg & RGB))
        if (buf_add_text(out, " style=\"") < 0 || add_rgb(out, fg, "color") < 0 ||
            add_rgb(out, bg, "background-color") < 0 || buf_add_text(out, "\"") < 0)
            return -1;
    return buf_add_text(out, ">");
}

/* ---- the text ---- */

/* The size of the escape sequence at the start of s. Sets *params if it is ESC [ params m. A
 * sequence without its end takes the whole text. */
static size_t sequence(struct slice s, struct slice *params)
{
    size_t n = 2;

    *params = slice_of(NULL, 0);
    if (s.n < 2)
        return s.n;
    if (s.p[1] == ']') { /* up to BEL, or ESC and a backslash */
        while (n < s.n && s.p[n] != '\a' && s.p[n] != '\033')
            n++;
        return n < s.n && s.p[n] == '\033' && n + 1 < s.n && s.p[n + 1] == '\\' ? n + 2
               : n < s.n && s.p[n] == '\a'                                      ? n + 1
                                                                                : n;
    }
    if (s.p[1] != '[')
        return s.p[1] == '\n' || s.p[1] & 0x80 ? 1 : 2;
    while (n < s.n && s.p[n] >= ' ' && s.p[n] < '@')
        n++;
    if (n < s.n && s.p[n] == 'm')
        *params = slice_of(s.p + 2, n - 2);
    return n < s.n && s.p[n] >= '@' && s.p[n] <= '~' ? n + 1 : n;
}

/* Characters that are written as they are. */
static size_t run_of(struct slice s)
{
    size_t n = 0;

    while (n < s.n) {
        const unsigned char c = (unsigned char)s.p[n];

        if ((c < ' ' && c != '\n' && c != '\t') || c == '&' || c == '<' || c == '>' || c == 0x7f)
            break;
        n++;
    }
    return n;
}

static int add_char(struct buf *out, char c)
{
    return c == '&'   ? buf_add_text(out, "&amp;")
           : c == '<' ? buf_add_text(out, "&lt;")
           : c == '>' ? buf_add_text(out, "&gt;")
                      : 0;
}

static int close_span(struct buf *out, bool *open)
{
    const bool was = *open;

    *open = false;
    return was ? buf_add_text(out, "</span>") : 0;
}

int ansi_html(struct slice s, struct buf *out)
{
    struct style style = plain;
    struct slice params;
    bool open = false;

    while (s.n) {
        const size_t run = run_of(s);
        size_t n = run ? run : 1;

        if (!run && *s.p == '\033') {
            n = sequence(s, &params);
            if (params.p) {
                set_style(&style, params);
                if (close_span(out, &open) < 0)
                    return -1;
            }
        } else {
            if (!open && !is_plain(&style) && (run || strchr("&<>", *s.p))) {
                if (open_span(out, &style) < 0)
                    return -1;
                open = true;
            }
            if ((run ? buf_add(out, s.p, run) : add_char(out, *s.p)) < 0)
                return -1;
        }
        s = slice_of(s.p + n, s.n - n);
    }
    return close_span(out, &open);
}
