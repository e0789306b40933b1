/* source.h - one stream of one rank: what of it is no whole line yet. */
#ifndef KERNEL_MERGE_SOURCE_H
#define KERNEL_MERGE_SOURCE_H

#include "base/clock.h"
#include "kernel/merge/utf8.h"

struct source {
    unsigned rank;
    unsigned stream;
    struct utf8 utf8;
    struct buf partial;         /* the end of the text, that waits for its newline */
    uint64_t since_ns;          /* when the partial's first byte came */
    struct source *prev, *next; /* of those whose partial waits, oldest first */
    bool queued;
    bool open;     /* the start of the line has left: what follows goes on with it */
    bool bar;      /* the line is a progress bar's: `state` holds what stands there now */
    bool returned; /* the cursor stands at the line's start: what follows takes the state's place */
    struct buf state;
};

struct source *source_create(unsigned rank, unsigned stream);
void source_destroy(struct source *s);
/* Takes text of one line, carriage returns in it, no newline. -1: memory is out. */
MUST_USE int source_overwrite(struct source *s, struct slice text);
/* The line is over: forgets the bar. */
void source_bar_over(struct source *s);
/* A bar that shows something. */
bool source_shows_bar(const struct source *s);

#endif
