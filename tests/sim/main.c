/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - chooses the part to play (part.h). */
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/settings.h"
#include "tests/sim/part.h"

int main(int argc, char **argv)
{
    const char *const name = path_name(argv[0]);

    if (strcmp(name, "cellspan-agent") == 0) {
        settings_open_log("home");
        return home_main(argc, argv);
    }
    if (strcmp(name, "cellspan-launch-sim") == 0) {
        settings_open_log("sim");
        return engine_main(argc, argv);
    }
    settings_open_log("driver");
    return driver_main(argc, argv);
}
