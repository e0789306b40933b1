/* install.h - `cellspan install` and `cellspan uninstall`: make the kernel known to Jupyter, and
 * not known any more. */
#ifndef CLI_INSTALL_H
#define CLI_INSTALL_H

#include "base/cmdline.h"

extern const struct cmdline_row install_rows[], uninstall_rows[];

/* argv[0] is the subcommand's name. Returns the exit status: 1 it failed, 2 the options are
 * wrong. */
int command_install(int argc, char **argv);
int command_uninstall(int argc, char **argv);

#endif
