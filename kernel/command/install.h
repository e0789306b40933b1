/* install.h - `cellspan install`: makes the kernel known to Jupyter. */
#ifndef COMMAND_INSTALL_H
#define COMMAND_INSTALL_H

/* argv[0] is the subcommand's name. Returns the exit status: 1 it failed, 2 the options are wrong. */
int command_install(int argc, char **argv);

#endif
