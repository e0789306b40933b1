/* SPDX-License-Identifier: BSD-3-Clause */
/* agent_lines.h - the lines that an agent and its launcher say to each other by the agent's stdin
 * and stdout. docs/launchers.md describes them. */
#ifndef BASE_AGENT_LINES_H
#define BASE_AGENT_LINES_H

#include <stdbool.h>
#include <string.h>

#include "base/slice.h"

/* From the launcher: the agent ends. With --stdin end, the end of stdin alone does not end it. */
#define AGENT_LINE_END "end\n"

/* Did it come? Nothing else is sent once the agent runs, and a pipe keeps such a write whole. */
static inline bool agent_line_is_end(struct slice s)
{
    const size_t n = sizeof AGENT_LINE_END - 1;

    return s.n >= n && memcmp(s.p, AGENT_LINE_END, n) == 0;
}

/* From an agent with --stdin end: its folder follows, for --presence. */
#define AGENT_LINE_FOLDER "cellspan-agent: folder "
/* From `cellspan-agent --presence FOLDER`; one of these follows: */
#define AGENT_LINE_PRESENCE "cellspan-presence: "
#define AGENT_LINE_BOOT     "boot " /* the machine's boot id follows */
#define AGENT_LINE_THERE    "there"
#define AGENT_LINE_GONE     "gone"
/* After these, and whenever it changes, one of two lines says whether the agent wants a relay. The
 * agent's folder and the reason follow WANTED, as they follow RELAY_WANTED. */
#define AGENT_LINE_WANTED   "wanted "
#define AGENT_LINE_UNWANTED "unwanted"

#endif
