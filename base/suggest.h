/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.h - finds the valid word that a user probably meant. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/* The edit distance: how many letters must be inserted, dropped, changed or swapped with their
 * neighbour. Ignores the case of ASCII letters. Compares only the first SUGGEST_MAX letters. */
#define SUGGEST_MAX 32u
unsigned suggest_distance(const char *a, const char *b);

/* The nearest of n valid words, borrowed; NULL if none is near. */
const char *suggest_nearest(const char *word, const char *const *valid, size_t n);

#endif
