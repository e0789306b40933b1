/* page.h - how much of streams and displays has left lately, for Jupyter's server drops what is
 * more than 3,000,000 bytes or 3,000 messages in any three seconds. One for all cells of a
 * notebook. Pure. */
#ifndef KERNEL_MERGE_PAGE_H
#define KERNEL_MERGE_PAGE_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/slice.h"

struct page;

struct page *page_create(const struct clock *clock); /* NULL: memory is out */
void page_destroy(struct page *p);                   /* NULL is fine */

/* Who asks for room: text goes on while there is some; the rest is for what must not be missing
 * behind it, such as the line that says how much is. */
enum page_for { PAGE_TEXT, PAGE_REST };

bool page_fits(const struct page *p, enum page_for what, size_t bytes);
void page_count(struct page *p, size_t bytes); /* a message of that size leaves */
/* the cell is over: the server counts anew from its idle on; NULL is fine */
void page_reset(struct page *p);
/* when there will be more room; the present: there is nothing to wait for */
uint64_t page_due_ns(const struct page *p);
/* What a message with this text has, written as JSON. */
size_t page_size(struct slice text);

#endif
