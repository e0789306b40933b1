/* source.h - one stream of one rank: the text that is not a whole line yet, and the progress bars
 * that it draws. A small terminal: rows, a cursor, and the escape sequences that tqdm uses. */
#ifndef KERNEL_MERGE_SOURCE_H
#define KERNEL_MERGE_SOURCE_H

#include "base/utf8.h"

#define SOURCE_ROWS 512u /* nested bars may have so many rows; older ones become lines */

struct source {
    unsigned rank;
    unsigned stream;
    struct utf8_stream utf8;
    struct buf partial; /* the last text, which waits for its newline */
    /* rows of a frame before it, which wait for the last row; no newline after the last one */
    struct buf frame;
    uint64_t since_ns;          /* when the first byte of partial or frame came */
    struct source *prev, *next; /* the queue of sources with waiting text, oldest first */
    bool queued;
    bool open;      /* the start of the line has left; what follows continues it */
    bool bar;       /* it draws a progress bar: `rows` hold its current state */
    bool returned;  /* the cursor is at the row's start: what follows replaces the row's text */
    bool untouched; /* the cursor came to the row by a newline, and nothing followed */
    unsigned row;   /* where the cursor is; below rows_n, which is at least 1 */
    unsigned rows_n;
    unsigned steps;    /* how many rows the cursor went up since the last newline */
    unsigned climb;    /* the most that steps ever was; above 0 for nested bars */
    bool blank;        /* the row was empty when the cursor came to it */
    uint64_t ended_ns; /* when a newline last ended a row */
    bool erased;       /* some row is erased, see below */
    struct source_row {
        struct buf text;
        /* the program erased the row while it moved up, to draw again. Its text is shown until new
         * text comes, or until nothing comes for a while, so that the bar does not flicker */
        bool erased;
    } *rows; /* rows_room of them */
    unsigned rows_room;
};

struct source *source_create(unsigned rank, unsigned stream);
void source_destroy(struct source *s);
/* Draws text with carriage returns and moves up (ESC [ n A), but no newline. -1: memory is out. */
MUST_USE int source_overwrite(struct source *s, struct slice text);
/* Moves the cursor to the start of the next row. There must be fewer than SOURCE_ROWS rows. If the
 * finished row is a bar that was drawn further down before, as tqdm does with bars that have a
 * position, the old row is cleared. -1: memory is out. */
MUST_USE int source_newline(struct source *s);
/* Does the text contain control sequences that draw (carriage return, cursor up, erase)? */
bool source_draws(struct slice text);
/* Clears the erased rows. Were there any? */
bool source_erase(struct source *s);
/* Does this text without control sequences continue a bar? Else it is a line after one. */
bool source_goes_on(const struct source *s, struct slice part);
/* How many empty lines end the text: with them tqdm moves down to a bar's position. 0 if there are
 * more than SOURCE_ROWS allows. */
size_t source_way_down(const struct source *s, struct slice text);
/* Drops the first row, which has become a line. The cursor must be below it. */
void source_shift(struct source *s);
/* Have newlines ended more rows than the cursor ever went up? These rows wait to become lines. */
bool source_waits(const struct source *s);
/* The text of the cursor's row. */
struct slice source_row(const struct source *s);
/* The bar is over: clears all rows. */
void source_bar_over(struct source *s);
/* Is there a bar with visible text? */
bool source_shows_bar(const struct source *s);

#endif
