/* run.h - `cellspan run`: a script on many ranks, from a shell. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

/* argv[0] is the subcommand's name. Returns the exit status: the failed rank's own where there is
 * one, else 1; 2 the options are wrong; 130 it was interrupted; 128 + n ended by signal n. */
int command_run(int argc, char **argv);

#endif
