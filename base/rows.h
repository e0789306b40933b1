/* rows.h - arrays of structs that grow, some of them sorted by a number in each: search, insert,
 * remove. */
#ifndef BASE_ROWS_H
#define BASE_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* The number that row i of `rows` is sorted by. */
typedef uint64_t (*rows_number_f)(const void *rows, size_t i);

/* Where among n sorted rows the one with that number stands, or belongs; the first of several. */
static inline size_t rows_place(const void *rows, size_t n, rows_number_f number, uint64_t wanted)
{
    size_t low = 0, high = n;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (number(rows, mid) < wanted)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Opens a gap of one row of `size` bytes at `at` (*n: behind all), whose bytes are the caller's to
 * set; *n is one more. *room is how many rows the allocation holds; when that is full it doubles,
 * from `first`. Returns the array, which may have moved, or NULL: memory is out and nothing has
 * changed. */
void *rows_insert(void *rows, size_t *n, size_t *room, size_t size, size_t at, size_t first);
/* Closes the gap that row `at` leaves. */
void rows_remove(void *rows, size_t *n, size_t size, size_t at);

#endif
