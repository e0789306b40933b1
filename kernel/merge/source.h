/* source.h - one stream of one rank: what of it is no whole line yet. */
#ifndef KERNEL_MERGE_SOURCE_H
#define KERNEL_MERGE_SOURCE_H

#include "base/clock.h"
#include "base/utf8.h"

#define SOURCE_ROWS 512u /* as many rows of nested bars are drawn anew; older ones are lines */

struct source {
    unsigned rank;
    unsigned stream;
    struct utf8_stream utf8;
    struct buf partial; /* the end of the text, that waits for its newline */
    /* before it: rows of a frame that wait for its last one; no newline behind the last */
    struct buf frame;
    uint64_t since_ns;          /* when the first byte of these came */
    struct source *prev, *next; /* of those of which some waits, oldest first */
    bool queued;
    bool open;      /* the start of the line has left: what follows goes on with it */
    bool bar;       /* the line is a progress bar's: `rows` hold what stands there now */
    bool returned;  /* the cursor stands at the row's start: what follows takes its text's place */
    bool untouched; /* the cursor came to the row by a newline, and nothing followed */
    unsigned row;   /* where the cursor is; below rows_n, which is at least 1 */
    unsigned rows_n;
    unsigned steps;    /* as many rows up the cursor went since the last newline */
    unsigned climb;    /* the most that steps was: nested bars are drawn so */
    bool blank;        /* the row was empty when the cursor came to it */
    uint64_t ended_ns; /* when a newline ended a row last */
    bool erased;       /* some row is, see below */
    struct row {
        struct buf text;
        /* on the way up, for the next drawing: its text is shown until that comes, or nothing does
         * for a while */
        bool erased;
    } *rows; /* rows_room of them */
    unsigned rows_room;
};

struct source *source_create(unsigned rank, unsigned stream);
void source_destroy(struct source *s);
/* Takes text with carriage returns and steps up (ESC [ n A) in it, no newline. -1: memory is
 * out. */
MUST_USE int source_overwrite(struct source *s, struct slice text);
/* To the start of the next row. There must be room: fewer than SOURCE_ROWS. A bar that stood
 * further down and is left here, as tqdm leaves those that have a position, is taken from there.
 * -1: memory is out. */
MUST_USE int source_newline(struct source *s);
/* Does the text move a terminal's cursor, or erase: is it drawn? */
bool source_draws(struct slice text);
/* Erased rows are empty now. Were there any? */
bool source_erase(struct source *s);
/* Does this text of a row, which draws nothing itself, go on with a bar, or is it a line's after
 * one? */
bool source_goes_on(const struct source *s, struct slice part);
/* How many empty lines end the text: they may be the way down to a bar's position, as tqdm goes it.
 * 0 also for more than a bar has rows. */
size_t source_way_down(const struct source *s, struct slice text);
/* The first row is a line now: forgets it. The cursor must be below it. */
void source_shift(struct source *s);
/* Newlines ended more rows than anybody went back up so far. */
bool source_waits(const struct source *s);
/* What the cursor's row holds, as a line's text. */
struct slice source_row(const struct source *s);
/* The bar is over: forgets its rows. */
void source_bar_over(struct source *s);
/* A bar that shows something. */
bool source_shows_bar(const struct source *s);

#endif
