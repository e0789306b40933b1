/* SPDX-License-Identifier: BSD-3-Clause */
/* scenes.h - what the program does with a kernel: tests, or measurements. */
#ifndef TESTS_SIM_SCENES_H
#define TESTS_SIM_SCENES_H

#include "tests/sim/driver.h"

#define SCENE_RANKS 8u /* of an agent */

/* TAP; the exit status. */
int scenes_run(const struct driver_to *to, unsigned agents);
/* JSON, one object, on stdout; the exit status. outage_s: so long nothing passes on lo; 0: no such
 * figure. */
int figures_run(const struct driver_to *to, unsigned agents, unsigned repeat, unsigned outage_s);

#endif
