/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.h - growing arrays of structs: insert and remove rows, and search in arrays that are sorted
 * by a number in each row. */
#ifndef BASE_ROWS_H
#define BASE_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* The number that row i of `rows` is sorted by. */
typedef uint64_t (*rows_number_f)(const void *rows, size_t i);

/* The index of the first row with that number among n sorted rows, or where it would belong. */
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

/* Inserts one uninitialised row of `size` bytes at index `at`, and increments *n. `array` is the
 * address of the pointer to the rows, which may move; *room is how many are allocated. Returns the
 * new row. NULL: memory is out and nothing has changed. */
void *rows_insert(void *array, size_t *n, size_t *room, size_t size, size_t at);
static inline void *rows_add(void *array, size_t *n, size_t *room, size_t size)
{
    return rows_insert(array, n, room, size, *n);
}
/* Removes row `at`; later rows move up. */
void rows_remove(void *rows, size_t *n, size_t size, size_t at);

#endif
