/* logo.h - the pictures that launchers show for the kernel, compiled in from logos/. */
#ifndef CLI_LOGO_H
#define CLI_LOGO_H

#include "base/slice.h"

struct logo {
    const char *name; /* as Jupyter looks for it; NULL ends the table */
    struct slice image;
};

extern const struct logo logos[];

#endif
