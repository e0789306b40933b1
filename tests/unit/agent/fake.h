/* SPDX-License-Identifier: BSD-3-Clause */
/* fake.h - a worker and a zygote without Python: the agent executes the test program itself as its
 * "python". */
#ifndef TESTS_UNIT_AGENT_FAKE_H
#define TESTS_UNIT_AGENT_FAKE_H

#include <stdbool.h>

/* Was the program called as `PYTHON -c CODE cellspan._worker ROLE FD`? */
bool fake_is_wanted(int argc, char **argv);
/* Serves until the socket ends. What it is told to do (content of REQUEST, code of RUN) are
 * commands, one a line:
 *   out TEXT, err TEXT    write TEXT; "\n" and "\r" stand for themselves
 *   flood N               N bytes of lines to stdout
 *   pub TEXT              PUBLISH of type TEXT         sync        SYNC, and wait for SYNCED
 *   sleep MS              hang (MS, or for ever)       exit N      _exit(N)
 *   kill N                raise a signal               close       close the socket and stay
 *   blob N                the answer brings N bytes    nonsense    a packet that is none
 *   child, daemon         a process that sleeps: of its group, of a session of its own; its pid is
 *                         printed
 *   listen PORT, connect PORT   TCP; cut               wait for CUT_SOCKETS and print how many
 * sockets it names stacks                answer the signal for stacks from now on oom the answer is
 * an error: GPU memory ran out env NAME              print it */
int fake_main(int argc, char **argv);

#endif
