#include "base/rows.h"

#include <stdlib.h>
#include <string.h>

void *rows_insert(void *rows, size_t *n, size_t *room, size_t size, size_t at, size_t first)
{
    char *row = rows;

    if (*n == *room) {
        const size_t more = *room ? 2 * *room : first;

        if (more > SIZE_MAX / 2 / size || !(row = realloc(rows, more * size)))
            return NULL;
        *room = more;
    }
    memmove(row + (at + 1) * size, row + at * size, (*n - at) * size);
    ++*n;
    return row;
}

void rows_remove(void *rows, size_t *n, size_t size, size_t at)
{
    char *row = (char *)rows + at * size;

    memmove(row, row + size, (--*n - at) * size);
}
