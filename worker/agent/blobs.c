/* blobs.c - see blobs.h. Few blobs live at a time, so the table is a sorted array. */
#include "worker/agent/blobs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void blobs_release(struct blobs *b)
{
    for (unsigned i = 0; i < b->n; i++)
        close(b->blob[i].fd);
    free(b->blob);
    *b = (struct blobs)BLOBS_INIT;
}

/* Where `number` stands or belongs. */
static unsigned find(const struct blobs *b, uint64_t number)
{
    unsigned low = 0, high = b->n;

    while (low < high) {
        const unsigned mid = low + (high - low) / 2;

        if (b->blob[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct blob *blobs_get(const struct blobs *b, uint64_t number)
{
    const unsigned i = find(b, number);

    return i < b->n && b->blob[i].number == number ? &b->blob[i] : NULL;
}

static int grow(struct blobs *b)
{
    const unsigned cap = b->cap ? b->cap * 2 : 16;
    struct blob *blob;

    if (b->n < b->cap)
        return 0;
    if (!(blob = realloc(b->blob, cap * sizeof *blob)))
        return -1;
    b->blob = blob;
    b->cap = cap;
    return 0;
}

int blobs_put(struct blobs *b, uint64_t number, uint64_t size, int fd)
{
    unsigned i;

    blobs_drop(b, number);
    if (grow(b) < 0) {
        close(fd);
        return -1;
    }
    i = find(b, number);
    memmove(&b->blob[i + 1], &b->blob[i], (b->n - i) * sizeof *b->blob);
    b->blob[i] = (struct blob){ number, size, fd };
    b->n++;
    return 0;
}

void blobs_drop(struct blobs *b, uint64_t number)
{
    const unsigned i = find(b, number);

    if (i >= b->n || b->blob[i].number != number)
        return;
    close(b->blob[i].fd);
    b->n--;
    memmove(&b->blob[i], &b->blob[i + 1], (b->n - i) * sizeof *b->blob);
}
