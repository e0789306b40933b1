/* SPDX-License-Identifier: BSD-3-Clause */
/* oldest_libc.c - linked into each program of the wheel, so that all of them need the same C
 * library: a function that came with glibc 2.28. Otherwise one would start on an older system, and
 * find there that another does not. */
int renameat2(int from, const char *old, int to, const char *new, unsigned flags);

__attribute__((used, retain, visibility("hidden"))) int (*const cellspan_oldest_libc)(
    int, const char *, int, const char *, unsigned) = renameat2;
