/* suggest.h - the valid word that somebody probably meant. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/* How many letters must be inserted, dropped, changed or swapped with their neighbour; the case of
 * ASCII letters does not count. Only the first SUGGEST_MAX letters are looked at. */
#define SUGGEST_MAX 32u
unsigned suggest_distance(const char *a, const char *b);

/* The nearest of n valid words, borrowed, or NULL when none is near. */
const char *suggest_nearest(const char *word, const char *const *valid, size_t n);

#endif
