/* engine_nodes.h - what an engine says about its nodes: their number, names and failures. */
#ifndef KERNEL_ENGINES_ENGINE_NODES_H
#define KERNEL_ENGINES_ENGINE_NODES_H

#include "kernel/engines/engine_output.h"

/* Handler of an engine's process; run is its struct engine_run. */
void engine_nodes_said(void *run, const struct engine_line *said);

#endif
