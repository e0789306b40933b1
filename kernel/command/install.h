/* install.h - `cellspan install` and `cellspan uninstall`: make the kernel known to Jupyter, and
 * not known any more. */
#ifndef COMMAND_INSTALL_H
#define COMMAND_INSTALL_H

#include "kernel/command/option.h"

extern const struct option_row install_rows[], uninstall_rows[];

/* argv[0] is the subcommand's name. Returns the exit status: 1 it failed, 2 the options are
 * wrong. */
int command_install(int argc, char **argv);
int command_uninstall(int argc, char **argv);

#endif
