/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/ssh/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HOSTS_MAX 4096u
#define SLOTS_MAX 65536ul

void ssh_hosts_release(struct ssh_hosts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++)
        free(hosts->v[i].destination);
    free(hosts->v);
    *hosts = (struct ssh_hosts)SSH_HOSTS_INIT;
}

/* Refuses names that ssh would take as an option, and characters that no name has. */
static int check_name(const char *destination, const char *name, struct err *err)
{
    const char *colon = strchr(name, ':');

    if (!*name || *destination == '-' || *name == '-')
        return err_set(err,
                       "'%s' is no host; a list is wanted, as in --on ssh:host1,host2*4,user@host3",
                       destination);
    for (const char *c = destination; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-@:%[]", *c))
            return err_set(err, "'%s' is no host: '%c' can't stand in a name", destination, *c);
    if (colon && !strchr(colon + 1, ':'))
        return err_set(err, "'%s': write the port into ~/.ssh/config (Host %.*s, Port %s)",
                       destination, (int)(colon - name), name, colon + 1);
    return 0;
}

/* Removes "*4" from the word and reads it. */
static int take_slots(char *word, unsigned *slots, struct err *err)
{
    char *star = strchr(word, '*'), *end;
    unsigned long n;

    *slots = 0;
    if (!star)
        return 0;
    errno = 0;
    n = strtoul(star + 1, &end, 10);
    if (errno || !isdigit((unsigned char)star[1]) || *end || n < 1 || n > SLOTS_MAX)
        return err_set(err, "'%s': after * write the number of ranks, from 1 to %lu", word,
                       SLOTS_MAX);
    *slots = (unsigned)n;
    *star = '\0';
    return 0;
}

unsigned ssh_host_ranks(const struct ssh_host *host)
{
    return host->slots ? host->slots : 1;
}

static int check_twice(const struct ssh_hosts *hosts, const char *name, struct err *err)
{
    unsigned times = 0, ranks = 0;

    for (size_t i = 0; i < hosts->n; i++)
        if (strcasecmp(hosts->v[i].name, name) == 0) {
            times++;
            ranks += ssh_host_ranks(&hosts->v[i]);
        }
    return times < 2 ? 0
                     : err_set(err, "%s is in the list more than once; %s*%u runs %u ranks there",
                               name, name, ranks, ranks);
}

static int check_all(const struct ssh_hosts *hosts, struct err *err)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (check_twice(hosts, hosts->v[i].name, err) < 0)
            return -1;
    return 0;
}

/* Takes ownership of word, also on failure. */
static int add(struct ssh_hosts *hosts, char *word, struct err *err)
{
    struct ssh_host host = { .destination = word };
    struct ssh_host *v;
    const char *at;

    if (take_slots(word, &host.slots, err) < 0)
        goto fail;
    at = strrchr(word, '@');
    host.name = at ? at + 1 : word;
    if (check_name(word, host.name, err) < 0)
        goto fail;
    if (hosts->n >= HOSTS_MAX) {
        (void)err_set(err, "more than %u hosts in the list: leave some out", HOSTS_MAX);
        goto fail;
    }
    if (!(v = realloc(hosts->v, (hosts->n + 1) * sizeof *v))) {
        (void)err_set(err, "out of memory");
        goto fail;
    }
    hosts->v = v;
    v[hosts->n++] = host;
    return 0;
fail:
    free(word);
    return -1;
}

/* A copy of the word of n bytes without the blanks around it; the caller frees it. */
static char *word_at(const char *spec, size_t n)
{
    while (n && isspace((unsigned char)*spec)) {
        spec++;
        n--;
    }
    while (n && isspace((unsigned char)spec[n - 1]))
        n--;
    return strndup(spec, n);
}

/* ---- h[1-3,07-09] ---- */

static int bad_range(const char *word, struct err *err)
{
    return err_set(err, "'%s': write numbers in the brackets, as in gpu[1-3,7] or gpu[01-12]",
                   word);
}

/* Finds the first brackets that are not an IPv6 address, from *open to *close. 1: found; 0: none;
 * -1: the closing one is missing. */
static int find_range(const char *word, const char **open, const char **close)
{
    for (const char *at = word; (*open = strchr(at, '[')); at = *close + 1) {
        if (!(*close = strchr(*open, ']')))
            return -1;
        if (!memchr(*open, ':', (size_t)(*close - *open)))
            return 1;
    }
    return 0;
}

/* Reads "7" or "01-12" at *at: first and last number, and the least number of digits. */
static int read_range(const char **at, unsigned long *first, unsigned long *last, int *digits)
{
    const size_t n = strspn(*at, "0123456789");

    if (n < 1 || n > 6)
        return -1;
    *digits = (int)n;
    *first = *last = strtoul(*at, NULL, 10);
    *at += n;
    if (**at == '-') {
        const size_t more = strspn(*at + 1, "0123456789");

        if (more < 1 || more > 6)
            return -1;
        *last = strtoul(*at + 1, NULL, 10);
        *at += 1 + more;
    }
    return *last < *first || *last - *first >= HOSTS_MAX ? -1 : 0;
}

static int expand(struct ssh_hosts *hosts, const char *word, struct err *err);

/* Replaces the brackets by this number, and adds the word. It may have more brackets after them. */
static int expand_one(struct ssh_hosts *hosts, const char *word, const char *open,
                      const char *close, unsigned long number, int digits, struct err *err)
{
    const size_t size = strlen(word) + 24;
    char *one = malloc(size);
    int rc;

    if (!one)
        return err_set(err, "out of memory");
    snprintf(one, size, "%.*s%0*lu%s", (int)(open - word), word, digits, number, close + 1);
    rc = expand(hosts, one, err);
    free(one);
    return rc;
}

static int expand(struct ssh_hosts *hosts, const char *word, struct err *err)
{
    const char *open, *close, *at;
    const int found = find_range(word, &open, &close);

    if (found < 0)
        return bad_range(word, err);
    if (found == 0) {
        char *copy = strdup(word);

        return copy ? add(hosts, copy, err) : err_set(err, "out of memory");
    }
    for (at = open + 1;; at++) {
        unsigned long first, last;
        int digits;

        if (read_range(&at, &first, &last, &digits) < 0 || (*at != ',' && at != close))
            return bad_range(word, err);
        for (unsigned long k = first; k <= last; k++)
            if (expand_one(hosts, word, open, close, k, digits, err) < 0)
                return -1;
        if (at == close)
            return 0;
    }
}

/* The length up to the first comma outside of brackets. */
static size_t word_span(const char *spec)
{
    bool within = false;
    size_t n = 0;

    for (; spec[n] && (within || spec[n] != ','); n++)
        within = spec[n] == '[' || (within && spec[n] != ']');
    return n;
}

int ssh_hosts_parse(struct ssh_hosts *hosts, const char *spec, struct err *err)
{
    if (spec[strspn(spec, " \t")] == '\0')
        return err_set(err, "ssh needs hosts, as in --on ssh:host1,host2*4,user@host3");
    for (;;) {
        const size_t n = word_span(spec);
        char *word = word_at(spec, n);
        int rc = word ? expand(hosts, word, err) : err_set(err, "out of memory");

        free(word);
        if (rc == 0 && !spec[n])
            rc = check_all(hosts, err);
        if (rc < 0)
            break;
        if (!spec[n])
            return 0;
        spec += n + 1;
    }
    ssh_hosts_release(hosts);
    return -1;
}

int ssh_hosts_check(const struct ssh_hosts *hosts, unsigned ranks, struct err *err)
{
    unsigned long sum = 0;

    for (size_t i = 0; i < hosts->n; i++) {
        if (!hosts->v[i].slots)
            return 0;
        sum += hosts->v[i].slots;
    }
    if (ranks > sum)
        return err_set(
            err,
            "-n %u: the hosts of this list take %lu ranks; raise the numbers after *, or add hosts",
            ranks, sum);
    return 0;
}
