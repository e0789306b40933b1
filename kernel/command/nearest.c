#include "kernel/command/nearest.h"

#include <string.h>

#define NAME_MAX_SIZE 32

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance with one row of the table; names longer than NAME_MAX_SIZE are near to nothing. */
static unsigned distance(const char *a, size_t n, const char *b)
{
    const size_t m = strlen(b);
    unsigned row[NAME_MAX_SIZE + 1];

    if (n > NAME_MAX_SIZE || m > NAME_MAX_SIZE)
        return NAME_MAX_SIZE;
    for (unsigned j = 0; j <= m; j++)
        row[j] = j;
    for (unsigned i = 1; i <= n; i++) {
        unsigned diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const unsigned above = row[j];

            row[j] = least(least(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

struct nearest nearest_to(const char *asked)
{
    return (struct nearest){ asked, NULL, 3 };
}

void nearest_try(struct nearest *n, const char *name)
{
    const unsigned d = distance(n->asked, strcspn(n->asked, "="), name);

    if (d < n->distance && d < strlen(name)) {
        n->distance = d;
        n->name = name;
    }
}
