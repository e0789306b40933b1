/* page.h - counts how much of streams and displays was sent lately. Jupyter's server drops what
 * exceeds 3,000,000 bytes or 3,000 messages in any three seconds. All cells of a notebook share
 * one counter. Pure. */
#ifndef KERNEL_MERGE_PAGE_H
#define KERNEL_MERGE_PAGE_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/slice.h"

struct page;

struct page *page_create(const struct clock *clock); /* NULL: memory is out */
void page_destroy(struct page *p);                   /* NULL is fine */

/* What the room is for. Text may use only part of it (PAGE_TEXT). The rest is kept for what must
 * follow it, such as the line that says how much is left out. */
enum page_for { PAGE_TEXT, PAGE_REST };

bool page_fits(const struct page *p, enum page_for what, size_t bytes);
void page_count(struct page *p, size_t bytes); /* a message of that size is sent */
/* the cell is over: at its idle message the server, too, starts from zero; NULL is fine */
void page_reset(struct page *p);
/* when there will be more room; now if there is nothing to wait for */
uint64_t page_due_ns(const struct page *p);
/* The size of the text in JSON, in bytes. */
size_t page_size(struct slice text);

#endif
