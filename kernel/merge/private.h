/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - what the files behind merge.h share, a section for each. Tests use it too. Pure. */
#ifndef KERNEL_MERGE_PRIVATE_H
#define KERNEL_MERGE_PRIVATE_H

#include "base/utf8.h"
#include "kernel/merge/merge.h"

/* ---- frame.c ---- */
/* Recognises tables and panels that are drawn with line characters, so that their rows stay
 * together. Pure. */

#define FRAME_MAX 65536u /* bytes; a longer frame is shown as separate lines */

enum frame_row {
    FRAME_NONE,  /* a line of text */
    FRAME_FIRST, /* ┌─┐ of any kind, or +--+ */
    /* starts with a line character, or with | or +; only within a frame */
    FRAME_MIDDLE,
    FRAME_LAST, /* └─┘: the frame's end */
};

/* A quick test by the first byte: most lines are text. */
static inline bool frame_is_text(struct slice line)
{
    return line.n && *line.p > '+' && *line.p < '|';
}

/* Decides by the first visible character, after colours and blanks. within: a frame has begun. */
enum frame_row frame_row(struct slice line, bool within);

/* ---- private_modes.c ---- */
/* Removes escape sequences that set a terminal's private modes (hide the cursor …). Pure. */

/* Does the text set a private mode (ESC [ ? n h, or l)? Then its program draws as on a terminal. */
bool private_modes_set(struct slice text);
/* Removes private modes. *out is text itself, or what was written to *room. -1: memory is out. */
MUST_USE int private_modes_strip(struct slice text, struct buf *room, struct slice *out);

/* ---- source.c ---- */
/* One stream of one rank: the text that is not a whole line yet, and the progress bars that it
 * draws. A small terminal: rows, a cursor, and the escape sequences that tqdm uses. */

#define SOURCE_ROWS 512u /* nested bars may have this many rows; older ones become lines */

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
    unsigned steps;     /* how many rows the cursor went up since the last newline */
    unsigned climb;     /* the most that steps ever was; above 0 for nested bars */
    bool blank;         /* the row was empty when the cursor came to it */
    uint64_t drawn_ns;  /* when text was last drawn */
    uint64_t ended_ns;  /* when a newline last ended a row */
    bool erased;        /* some row is erased, see below */
    bool over;          /* its rank prints nothing more: the rows wait to become lines */
    bool framed;        /* the frame's rows were rows of a bar */
    bool below;         /* what it passed on last is the last state of a bar */
    struct buf behind;  /* text that waits for the bars of its rank's other stream */
    uint64_t behind_ns; /* since when */
    struct source_row {
        struct buf text;
        /* the program erased the row while it moved up, to draw again. Its text is shown until new
         * text comes, or until nothing comes for a while, so that the bar does not flicker */
        bool erased;
        uint64_t erased_ns; /* when */
    } *rows;                /* rows_room of them */
    unsigned rows_room;
};

struct source *source_create(unsigned rank, unsigned stream);
void source_destroy(struct source *s);
/* Draws text with carriage returns and moves up (ESC [ n A), but no newline. -1: memory is out. */
MUST_USE int source_overwrite(struct source *s, struct slice text, uint64_t now);
/* Moves the cursor to the start of the next row. There must be fewer than SOURCE_ROWS rows. If the
 * finished row is a bar that was drawn further down before, as tqdm does with bars that have a
 * position, the old row is cleared. -1: memory is out. */
MUST_USE int source_newline(struct source *s);
/* Does the text contain control sequences that draw (carriage return, cursor up, erase)? */
bool source_draws(struct slice text);
/* Clears the rows that were erased until then. Were there any? */
bool source_erase(struct source *s, uint64_t until_ns);
/* When the first of the rows was erased that still are; UINT64_MAX: none is. */
uint64_t source_erased_ns(const struct source *s);
/* Does this text without control sequences continue a bar? Else it is a line after one. */
bool source_goes_on(const struct source *s, struct slice part);
/* How many empty lines end the text: with them tqdm moves down to a bar's position. 0 if there are
 * more than SOURCE_ROWS allows. */
size_t source_way_down(const struct source *s, struct slice text);
/* Drops the first row, which has become a line. The cursor must be below it. */
void source_shift(struct source *s);
/* Have newlines ended more rows than the cursor ever went up? These rows wait to become lines. */
bool source_waits(const struct source *s);
/* Is the cursor below all rows? Then the bars may have ended. */
bool source_rests(const struct source *s);
/* Is nothing drawn any more? The cursor rests, and is not expected to go up. */
bool source_ended(const struct source *s);
bool source_goes_up(struct slice text); /* Does the text move the cursor up? */

/* Sources with waiting text, oldest first. Adding one that is there changes nothing. */
struct source_queue {
    struct source *first, *last;
};
void source_queue(struct source_queue *q, struct source *s, uint64_t now);
void source_unqueue(struct source_queue *q, struct source *s);
struct slice source_row(const struct source *s); /* The text of the cursor's row. */
void source_bar_over(struct source *s);          /* The bar is over: clears all rows. */
bool source_shows_bar(const struct source *s);   /* Is there a bar with visible text? */

/* ---- label.c ---- */
/* The label before a line that names its ranks: "[2] ", "[0-3] ", "[0,2-3] ". */

#define LABEL_SLOTS 16u

/* A cache: the same ranks print many lines. All sets have the same number of words. */
struct labels {
    unsigned words;
    struct label {
        struct buf text;
        uint64_t *who; /* owned; NULL: the slot is free */
    } slots[LABEL_SLOTS];
};

void labels_release(struct labels *l);
/* Appends the label of the set `who` (bits as in struct ranks). -1: memory is out. */
MUST_USE int labels_add(struct labels *l, const uint64_t *who, struct buf *out);

/* ---- bars.c ---- */
/* Shows the progress bars of all ranks as lines: one for each rank, or several if its bars are
 * nested. Equal ones may be folded into one. */

/* Appends the lines of all sources that show a bar. There are 2 sources for each rank; an entry may
 * be NULL. fold: equal lines of different ranks become one. labels NULL: no labels. -1: memory is
 * out. */
MUST_USE int bars_write(struct source *const *sources, size_t n, bool fold, struct labels *labels,
                        struct buf *out);

/* ---- fold.c ---- */
/* The waiting lines of one stream. A line waits for equal lines of other ranks, or for the end of
 * another rank's long line.
 *
 * The list has the order in which lines will leave. A rank's new line joins an equal line after the
 * last line of this rank, so that each rank's lines keep their order. Or it joins an earlier equal
 * line that is the last one of all its ranks; that line then moves to the end. For example, "loss
 * 0.3", "epoch 1" of one rank and "loss 0.4", "epoch 1" of another become one "epoch 1" at the end.
 * The first line is settled when no rank can join it any more. */

#define LINE_OPEN  1u  /* no newline at its end (yet) */
#define LINE_CONT  2u  /* continues a LINE_OPEN of the same ranks */
#define LINE_FRAME 4u  /* several lines that stay together, separated by newlines */
#define LINE_BARE  8u  /* only colour codes: no label, no newline */
#define LINE_ERR   16u /* shown on stderr, though it is in the queue of stdout */
#define LINE_BAR   32u /* only for put.c: the last state of a progress bar */

struct line {
    struct line *next, *prev;
    struct line *chained; /* the next line in the same hash bucket */
    uint64_t seq;
    uint64_t hash;
    uint64_t due_ns; /* leaves at this time at the latest */
    size_t n;        /* bytes of text */
    unsigned flags;
    unsigned words;
    uint64_t who[]; /* the bits of its ranks, as in struct ranks; then the text */
};

static inline struct slice line_text(const struct line *l)
{
    return slice_of(l->who + l->words, l->n);
}

struct fold;

/* living: the ranks that may still print; a line is settled when none of them can join it (copied).
 * joins: equal lines of different ranks become one. */
struct fold *fold_create(const struct ranks *living, bool joins);
void fold_destroy(struct fold *f);
/* rank must be below 64 times the words of `living`. -1: memory is out. */
MUST_USE int fold_add(struct fold *f, unsigned rank, struct slice text, unsigned flags,
                      uint64_t due_ns);
void fold_rank_over(struct fold *f, unsigned rank);
const struct line *fold_head(const struct fold *f); /* borrowed; NULL: nothing waits */
bool fold_settled(const struct fold *f);            /* no rank can join the head any more */
bool fold_has(const struct fold *f, unsigned rank); /* a line of this rank waits */
size_t fold_bytes(const struct fold *f);            /* of text */
size_t fold_cost(const struct fold *f);             /* of memory */
struct line *fold_take(struct fold *f);             /* the head, now the caller's (free()) */

/* ---- show.c ---- */
/* The text on the client's screen. Puts labels before lines, keeps other ranks' text out of an
 * unfinished line, and gathers text so that a call of merge passes on few blocks. */

#define SHOW_LONG    16384u   /* others' lines wait for the end of an unfinished line this long */
#define SHOW_LONG_NS NS_PER_S /* unless nothing more of it came for this time */

struct show {
    struct merge_out out;
    bool labelled;
    bool refused; /* out() failed; its owner knows why */
    struct labels labels;
    struct buf text; /* of `stream`, not passed to out() yet */
    unsigned stream;
    struct show_open { /* by stream: the unfinished line on the screen */
        bool on;
        uint64_t *who;    /* owned: its ranks */
        size_t n;         /* bytes of it that are shown */
        uint64_t last_ns; /* when the last part of it came */
    } open[2];
};

int show_init(struct show *s, struct merge_out out, bool labelled, unsigned words);
void show_release(struct show *s);
/* Shows a line, or a piece of one, of these ranks. -1: memory is out or out() failed. */
MUST_USE int show_line(struct show *s, unsigned stream, const uint64_t *who, struct slice text,
                       unsigned flags, uint64_t now);
/* Does the unfinished line on the screen belong to this rank alone? */
bool show_is_open(const struct show *s, unsigned stream, unsigned rank);
/* Until when other ranks' lines must wait for the end of a long line; 0: they need not. */
uint64_t show_held_ns(const struct show *s, unsigned stream);
/* This rank prints nothing more: no line waits for the end of its unfinished line. */
void show_rank_over(struct show *s, unsigned stream, unsigned rank);
MUST_USE int show_out(struct show *s); /* Passes the gathered text to out(). */

/* Passes on the text of a rank that is shown alone; only repairs invalid UTF-8. */

struct passthrough {
    long rank; /* -1: all ranks are shown */
    /* the rank draws as on a terminal: from now on its text takes all steps of merge.c */
    bool drawn;
    struct utf8_stream utf8[2]; /* by stream */
};

static inline bool passthrough_is_on(const struct passthrough *p)
{
    return p->rank >= 0 && !p->drawn;
}

/* room: for repaired text. -1: memory is out, or out() failed. */
MUST_USE int passthrough_lines(struct passthrough *p, struct show *show, unsigned stream,
                               struct slice data, struct buf *room);
/* The rank is over: an incomplete character is replaced. */
MUST_USE int passthrough_end(struct passthrough *p, struct show *show, struct buf *room);

/* ---- line_queue.c ---- */
/* One stream (stdout or stderr) of all ranks: lines wait in a fold as long as they must, and are
 * then shown. */

struct line_queue {
    unsigned stream;
    bool joins; /* equal lines of different ranks become one */
    unsigned words;
    struct fold *fold; /* owned */
    struct show *show; /* borrowed; both streams share it */
    uint64_t *one;     /* owned: scratch room for a set of one rank */
};

enum line_queue_drain {
    DRAIN_DUE,  /* lines that have waited long enough or are settled */
    DRAIN_RANK, /* all lines up to the last line of a rank */
    DRAIN_ALL,
};

MUST_USE int line_queue_init(struct line_queue *q, unsigned stream, const struct ranks *living,
                             bool joins, struct show *show);
void line_queue_release(struct line_queue *q);
/* Adds a line of this rank, or a piece of one. Shows it at once if it need not wait. */
MUST_USE int line_queue_put(struct line_queue *q, unsigned rank, struct slice text, unsigned flags,
                            uint64_t due_ns, uint64_t now);
/* Shows the lines that `which` selects; rank: only for DRAIN_RANK. */
MUST_USE int line_queue_drain(struct line_queue *q, enum line_queue_drain which, unsigned rank,
                              uint64_t now);
uint64_t line_queue_due_ns(const struct line_queue *q); /* UINT64_MAX: nothing waits */

/* ---- merge.c ---- */

struct merge {
    const struct clock *clock;
    struct merge_out out;
    enum plan_merge mode;
    bool labelled;
    struct passthrough passthrough;
    unsigned words;
    struct show show; /* if only one rank is shown, only `refused` is used */
    /* by stream; the first one also has the last states of bars, whatever stream they are from */
    struct line_queue queues[2];
    struct source **sources; /* 2 * rank + stream - 1; NULL until it prints */
    size_t sources_n;
    struct source_queue waits; /* sources whose partial or frame waits */
    size_t partial_bytes;      /* of partials and frames */
    unsigned starts;           /* flags of the start of a line that is shown; 0: none is */
    /* of one call: repaired text, or the bars; text without a terminal's modes */
    struct buf room, bare;
    /* since the last report; it was not empty; bars have become lines since then */
    bool bars_changed, bars_shown, bars_left;
    uint64_t bars_next_ns, rows_due_ns; /* UINT64_MAX: no finished row of a bar waits */
    uint64_t behind_due_ns;             /* UINT64_MAX: no text waits for bars of its rank */
};

/* ---- put.c ---- */
/* Passes text of a source on to the queues. The start of a line waits for its end, and the rows of
 * a frame wait for its last row. All of them -1: memory is out, or out() failed. */

#define EQUAL_NS (100 * NS_PER_MS) /* a line waits this long for equal lines of other ranks */

/* A line or a piece of one, after the frame that waits. flags: LINE_… */
MUST_USE int put_piece(struct merge *m, struct source *s, struct slice text, unsigned flags,
                       uint64_t due_ns, uint64_t now);
/* A whole line, which may be a row of a frame. flags: LINE_BAR or 0. */
MUST_USE int put_line(struct merge *m, struct source *s, struct slice text, unsigned flags,
                      uint64_t now);
/* More of a line without its end. */
MUST_USE int put_start(struct merge *m, struct source *s, struct slice text, uint64_t now);
/* The rest of a line of which the start may have waited. */
MUST_USE int put_whole(struct merge *m, struct source *s, struct slice text, uint64_t now);
MUST_USE int put_frame(struct merge *m, struct source *s, uint64_t now); /* The frame that waits. */
/* The start of a line, and the frame, that wait: the rest did not come in time. */
MUST_USE int put_partial(struct merge *m, struct source *s, uint64_t now);
void put_clear(struct merge *m, struct source *s); /* Drops the start of a line. */

#endif
