/* main.c - chooses the part to play (part.h). */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/path.h"
#include "tests/sim/part.h"

int main(int argc, char **argv)
{
    const char *const name = path_name(argv[0]);

    if (strcmp(name, "cellspan-agent") == 0) {
        log_open("home");
        return home_main(argc, argv);
    }
    if (strcmp(name, "cellspan-launch-sim") == 0) {
        log_open("sim");
        return engine_main(argc, argv);
    }
    log_open("driver");
    return driver_main(argc, argv);
}
