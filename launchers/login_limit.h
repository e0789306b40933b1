/* SPDX-License-Identifier: BSD-3-Clause */
/* login_limit.h - how many logins of a launcher go on at once, whatever they are for: an agent's
 * start, a relay, or the question whether an agent is still there. Servers and jump hosts drop
 * those that are too many, and after a break of the network all begin at the same time. */
#ifndef LAUNCHERS_LOGIN_LIMIT_H
#define LAUNCHERS_LOGIN_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct login;

struct login_limit {
    unsigned most; /* at once */
    unsigned running;
    struct login *first, **last; /* those that wait */
    bool starting;
};

enum login_state { LOGIN_NONE, LOGIN_WAITS, LOGIN_RUNS };

struct login {
    struct login_limit *login_limit; /* NULL: it need not wait; borrowed */
    void (*start)(void *arg);        /* it may begin */
    void *arg;
    enum login_state state;
    struct login *next;
};

void login_limit_init(struct login_limit *l, unsigned most);
/* Calls start() when it may begin, at once or from login_over() of another one. */
void login_ask(struct login *one);
/* It has got in, has failed, or is not wanted any more. Does nothing if it has not been asked for.
 */
void login_over(struct login *one);
/* A pause of about that length: those that failed together do not come back together. */
uint64_t login_pause_ns(uint64_t ns);

#endif
