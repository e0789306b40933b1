/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/rows.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 4u /* rows of an array that is new */

void *rows_insert(void *array, size_t *n, size_t *room, size_t size, size_t at)
{
    char *row;

    memcpy(&row, array, sizeof row); /* not by *(void **)array: the pointer has another type */
    if (*n == *room) {
        const size_t more = *room ? 2 * *room : FIRST;

        if (more > SIZE_MAX / 2 / size || !(row = realloc(row, more * size)))
            return NULL;
        memcpy(array, &row, sizeof row);
        *room = more;
    }
    row += at * size;
    memmove(row + size, row, (*n - at) * size);
    ++*n;
    return row;
}

void rows_remove(void *rows, size_t *n, size_t size, size_t at)
{
    char *row = (char *)rows + at * size;

    memmove(row, row + size, (--*n - at) * size);
}
