/* engine_nodes.h - what an engine says about its nodes: how many there are, their names, failures.
 */
#ifndef KERNEL_ENGINES_ENGINE_NODES_H
#define KERNEL_ENGINES_ENGINE_NODES_H

#include "kernel/engines/engine_output.h"

struct engine_process;

/* Handler of an engine's process; run is its struct engine_run. */
void engine_nodes_said(void *run, struct engine_process *process, const struct engine_line *said);

#endif
