/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c - see launcher.h. Ignores errors: the kernel reads stdout to its end, and when the
 * kernel is gone nobody needs the lines. */
#include "launchers/launcher.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 2048

static void clean(char *text, char instead, char least)
{
    for (; *text; text++)
        if ((unsigned char)*text < (unsigned char)least || *text == 0x7f)
            *text = instead;
}

static PRINTF_LIKE(2, 0) void say(const char *start, const char *format, va_list args)
{
    char text[TEXT_MAX];

    vsnprintf(text, sizeof text, format, args);
    clean(text, ' ', ' ');
    printf("%s%s\n", start, text);
    fflush(stdout);
}

void report_tells_ends(void)
{
    printf("contract 2\n");
    fflush(stdout);
}

void report_nodes(unsigned n)
{
    printf("nodes %u\n", n);
    fflush(stdout);
}

void report_nodes_together(unsigned n)
{
    printf("nodes %u together\n", n);
    fflush(stdout);
}

/* What machines are busy with, of agents that are not up. The line `node` of another one starts the
 * kernel's clock, and `say` stops it again. */
static struct busy {
    unsigned agent;
    char *text; /* owned */
} *busy;
static size_t busy_n;

static void end_busy(unsigned agent)
{
    for (size_t i = 0; i < busy_n; i++)
        if (busy[i].agent == agent) {
            free(busy[i].text);
            busy[i--] = busy[--busy_n];
        }
    if (!busy_n) {
        free(busy);
        busy = NULL;
    }
}

void report_busy(unsigned agent, const char *format, ...)
{
    char text[TEXT_MAX];
    struct busy *more;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    end_busy(agent);
    if ((more = realloc(busy, (busy_n + 1) * sizeof *more))) {
        busy = more;
        busy[busy_n] = (struct busy){ agent, strdup(text) };
        busy_n += busy[busy_n].text != NULL;
    }
    report_say("%s", text);
}

void report_node(unsigned agent, const char *name, unsigned slots)
{
    char word[256];

    snprintf(word, sizeof word, "%s", name);
    clean(word, '_', '!');
    if (slots)
        printf("node %u %s %u\n", agent, word, slots);
    else
        printf("node %u %s\n", agent, word);
    fflush(stdout);
    end_busy(agent);
    if (busy_n)
        report_say("%s", busy[0].text);
}

void report_end_takes(unsigned seconds)
{
    printf("end %u\n", seconds);
    fflush(stdout);
}

void report_job_ends(unsigned seconds)
{
    printf("ends %u\n", seconds);
    fflush(stdout);
}

void report_notice(unsigned agent, unsigned seconds, const char *format, ...)
{
    char start[64];
    va_list args;

    snprintf(start, sizeof start, "notice %u %u ", agent, seconds);
    va_start(args, format);
    say(start, format, args);
    va_end(args);
}

void report_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say("say ", format, args);
    va_end(args);
}

void report_away(unsigned agent)
{
    printf("away %u\n", agent);
    fflush(stdout);
}

static void say_of(const char *what, unsigned agent, const char *format, va_list args)
{
    char start[32];

    snprintf(start, sizeof start, "%s %u ", what, agent);
    say(start, format, args);
}

void report_gone(unsigned agent, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_of("gone", agent, format, args);
    va_end(args);
}

void report_failed(unsigned agent, const char *format, ...)
{
    va_list args;

    end_busy(agent);
    va_start(args, format);
    say_of("failed", agent, format, args);
    va_end(args);
}
