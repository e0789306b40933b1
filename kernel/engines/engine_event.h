/* engine_event.h - what the kernel is told about an engine. */
#ifndef KERNEL_ENGINES_ENGINE_EVENT_H
#define KERNEL_ENGINES_ENGINE_EVENT_H

enum engine_event {
    ENGINE_SAYS,  /* text: for the user, while it starts */
    ENGINE_NODES, /* the number of its nodes is known now */
    /* It ended before its nodes were up, or they did not come up in time. text: why, in the
     * engine's words. The engine has been stopped. */
    ENGINE_FAILED,
};

#endif
