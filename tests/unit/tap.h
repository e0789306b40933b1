/* SPDX-License-Identifier: BSD-3-Clause */
/* tap.h - functions for unit tests, which print TAP for automake's driver. A test is a program; its
 * main ends in `return plan_done();`. */
#ifndef TESTS_UNIT_TAP_H
#define TESTS_UNIT_TAP_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TAP_LIMIT_S 600 /* the longest takes a minute */

struct tap {
    unsigned count;
    unsigned failed;
};

/* The counters of this program: tests are single files with one thread. */
static struct tap tap_counters;

/* A test that hangs ends, and its log tells after which line and beside whom. */
static inline void tap_is_over(int signo)
{
    static const char text[] = "Bail out! the test took too long; these ran:\n";

    (void)signo;
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    (void)execlp("ps", "ps", "-eo", "pid,ppid,stat,wchan:24,etimes,args", (char *)0);
    _exit(99);
}

__attribute__((constructor)) static void tap_begin(void)
{
    (void)signal(SIGALRM, tap_is_over);
    (void)alarm(TAP_LIMIT_S);
}

/* A name becomes one line, and '#' would start a TAP directive. */
static inline void tap_print_name(const char *format, va_list args)
{
    char name[512];

    vsnprintf(name, sizeof name, format, args);
    for (char *c = name; *c; c++)
        if (*c == '\n' || *c == '\r' || *c == '#')
            *c = ' ';
    printf(" %s\n", name);
}

static inline bool tap_line(bool good, const char *format, va_list args)
{
    tap_counters.count++;
    if (!good)
        tap_counters.failed++;
    printf("%sok %u -", good ? "" : "not ", tap_counters.count);
    tap_print_name(format, args);
    fflush(stdout); /* what was proven stays on record when the next line crashes */
    return good;
}

__attribute__((format(printf, 1, 2))) static inline void diag(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("#", stdout);
    tap_print_name(format, args);
    va_end(args);
}

/* A sentence about behaviour, and whether it holds; returns cond. */
__attribute__((format(printf, 4, 5))) static inline bool tap_ok(bool good, const char *file,
                                                                int line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tap_line(good, format, args);
    va_end(args);
    if (!good)
        diag("  at %s:%d", file, line);
    return good;
}
#define ok(cond, ...) tap_ok((cond) ? true : false, __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 5, 6))) static inline bool
tap_is_int(int64_t got, int64_t want, const char *file, int line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tap_line(got == want, format, args);
    va_end(args);
    if (got != want)
        diag("  at %s:%d: got %lld, want %lld", file, line, (long long)got, (long long)want);
    return got == want;
}
/* Any integers that fit an int64_t: got, want, then the sentence. */
#define is_int(got, want, ...)                                                                     \
    tap_is_int((int64_t)(got), (int64_t)(want), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 5, 6))) static inline bool
tap_is_text(const char *got, const char *want, const char *file, int line, const char *format, ...)
{
    const bool same = got && want ? strcmp(got, want) == 0 : got == want;
    va_list args;

    va_start(args, format);
    tap_line(same, format, args);
    va_end(args);
    if (!same) {
        diag("  at %s:%d", file, line);
        diag("  got:  %s", got ? got : "(NULL)");
        diag("  want: %s", want ? want : "(NULL)");
    }
    return same;
}
/* NUL-terminated texts, either may be NULL: got, want, then the sentence. */
#define is_text(got, want, ...) tap_is_text((got), (want), __FILE__, __LINE__, __VA_ARGS__)

/* For what can't be tried here: counts as passed, and says why. */
__attribute__((format(printf, 1, 2))) static inline void skip(const char *format, ...)
{
    va_list args;

    tap_counters.count++;
    printf("ok %u # SKIP", tap_counters.count);
    va_start(args, format);
    tap_print_name(format, args);
    va_end(args);
}

/* Ends the test: prints the plan, and returns main's exit status. */
static inline int plan_done(void)
{
    printf("1..%u\n", tap_counters.count);
    return tap_counters.failed ? 1 : 0;
}

#endif
