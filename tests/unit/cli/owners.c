/* SPDX-License-Identifier: BSD-3-Clause */
/* owners.c - a user who has many kernels, or many numbers, takes nobody's turn. */
#include "cli/owners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/tap.h"

#define MANY 900

static void write_file(char path[static 64], const char *text)
{
    FILE *file;
    int fd;

    snprintf(path, 64, "/tmp/cellspan-owners-XXXXXX");
    if ((fd = mkstemp(path)) < 0 || !(file = fdopen(fd, "w")))
        abort();
    fputs(text, file);
    fclose(file);
}

static void load(struct owners *o, const char *passwd, const char *subuid)
{
    char users[64], ranges[64];

    write_file(users, passwd);
    write_file(ranges, subuid);
    if (owners_load(o, users, ranges) < 0)
        abort();
    (void)unlink(users);
    (void)unlink(ranges);
}

static void whose_numbers(void)
{
    struct owners o = OWNERS_INIT;

    load(&o,
         "root:x:0:0::/:/bin/sh\n# no user\n\n:\nann:x:1001:1001::/:/bin/sh\n"
         "odd:x:-1:0::/:\nbob:x:1000:1000::/:/bin/sh\nsvc:x:100007:1::/:\n",
         "ann:100000:65536\n1000:300000:10\nfar:400000:10\nbad\nbad:\nbad:1:\nbad:x:5\n");
    is_int((int)owners_of(&o, 1001), 1001, "a user is his own owner");
    is_int((int)owners_of(&o, 100000), 1001, "the numbers of his range are his");
    is_int((int)owners_of(&o, 165535), 1001, "up to the last");
    is_int((int)owners_of(&o, 165536), 165536, "and no more");
    is_int((int)owners_of(&o, 100007), 100007, "a user in another's range is himself");
    is_int((int)owners_of(&o, 300009), 1000, "a range may be of a number");
    is_int((int)owners_of(&o, 400009), 400000, "one of a user whom a server knows is one owner");
    is_int((int)owners_of(&o, 1), 1, "odd lines are passed over");
    ok(owners_know(&o, 100001) && owners_know(&o, 0) && !owners_know(&o, 400001) &&
           !owners_know(&o, 5555),
       "who is in the files is known");
    owners_release(&o);
    if (owners_load(&o, "/nowhere/passwd", "/nowhere/subuid") < 0)
        abort();
    ok(owners_of(&o, 7) == 7 && !owners_know(&o, 7), "without files, all are their own owners");
    owners_release(&o);
}

static void set(struct running_kernel *k, const struct owners *o, uid_t uid)
{
    *k = (struct running_kernel){
        .uid = uid, .owner = owners_of(o, uid), .known = owners_know(o, uid), .foreign = uid != 0
    };
}

/* The turn of this kernel. */
static int turn_of(const struct turn *turn, size_t n, size_t kernel)
{
    for (size_t i = 0; i < n; i++)
        if (turn[i].kernel == kernel)
            return (int)turn[i].answer - 1;
    return -1;
}

static void whose_turn(const char *subuid, int others, const char *what)
{
    static struct running_kernel of[MANY + 4];
    static struct turn turn[MANY + 4];
    const struct kernels k = { .of = of, .n = MANY + 4 };
    struct owners o = OWNERS_INIT;

    load(&o, "root:x:0:0::/:\nmal:x:1000:1000::/:\nann:x:1001:1001::/:\n", subuid);
    for (unsigned i = 0; i < MANY; i++)
        set(&of[i], &o, 100000 + i);
    set(&of[MANY], &o, 5555); /* a server knows him */
    set(&of[MANY + 1], &o, 1001);
    set(&of[MANY + 2], &o, 0);
    set(&of[MANY + 3], &o, 0);
    turns_fill(turn, &k, 1);
    ok(turn_of(turn, k.n, MANY + 2) == 0 && turn_of(turn, k.n, MANY + 3) == 1,
       "root's own are first, beside many numbers of %s", what);
    is_int(turn_of(turn, k.n, MANY + 1), others, "then a user's");
    if (subuid[0])
        is_int(turn_of(turn, k.n, MANY), others + 1, "then that of a user whom a server knows");
    owners_release(&o);
}

int main(void)
{
    whose_numbers();
    whose_turn("mal:100000:65536\n", 3, "one user");
    whose_turn("", 2, "nobody's");
    return plan_done();
}
