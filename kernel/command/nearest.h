/* nearest.h - which of some names was probably meant. */
#ifndef COMMAND_NEAREST_H
#define COMMAND_NEAREST_H

struct nearest {
    const char *asked; /* borrowed */
    const char *name;  /* the nearest so far, borrowed; NULL: none is near */
    unsigned distance; /* edits between the two */
};

/* `asked` may end in "=value", which doesn't count. */
struct nearest nearest_to(const char *asked);
void nearest_try(struct nearest *n, const char *name);

#endif
