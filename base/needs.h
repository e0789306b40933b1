/* SPDX-License-Identifier: BSD-3-Clause */
/* needs.h - the packages that the Python of home and ranks must have.
 * worker/python/requirements.txt has the same for pip, and debugpy: without that there is no
 * debugger. */
#ifndef BASE_NEEDS_H
#define BASE_NEEDS_H

/* X(module, its package, the versions that work): three literals. */
#define NEEDS_EACH(X)                                                                              \
    X("IPython", "ipython", ">=8")                                                                 \
    X("comm", "comm", "")                                                                          \
    X("cloudpickle", "cloudpickle", ">=2")                                                         \
    X("matplotlib_inline", "matplotlib-inline", "")

/* The packages as words for pip in a shell, each after a space. */
#define NEEDS_WORD(module, package, versions) " \"" package versions "\""
#define NEEDS_WORDS                           NEEDS_EACH(NEEDS_WORD)

#endif
