/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl.h - NCCL (libnccl.so.2), loaded when a check or a broadcast needs it: the one that torch
 * installed, else the system's.
 *
 * The types here follow NCCL's binary interface since 2.14 without its headers, so that one build
 * serves every version. If configure found nccl.h, nccl_headers.c compares them with it.
 * Communicators are nonblocking: no call waits for a peer. */
#ifndef WORKER_COLLECTIVE_NCCL_H
#define WORKER_COLLECTIVE_NCCL_H

#include <stddef.h>

#include "base/err.h"
#include "worker/collective/cuda_driver.h"

#define NCCL_ID    128u  /* bytes */
#define NCCL_LEAST 21400 /* 2.14 is the first with nonblocking communicators */
#define NCCL_MAGIC 0xcafebeefu

typedef int nccl_result; /* ncclResult_t */
typedef struct nccl_comm_s *nccl_comm;
struct nccl_id {
    char bytes[NCCL_ID];
};
enum { NCCL_SUCCESS = 0, NCCL_REMOTE_ERROR = 6, NCCL_IN_PROGRESS = 7 };
enum { NCCL_UINT8 = 1, NCCL_FLOAT32 = 7 };
enum { NCCL_SUM = 0 };

/* The configuration as in 2.14. A newer library recognises the shorter struct by `size` and
 * `version`, and uses its defaults for the rest. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

struct nccl {
    void *library;
    int version;    /* 22403: 2.24.3 */
    char path[256]; /* the name under which it was found */
    nccl_result (*get_version)(int *version);
    nccl_result (*get_id)(struct nccl_id *id);
    nccl_result (*init)(nccl_comm *comm, int ranks, struct nccl_id id, int rank,
                        struct nccl_config *config);
    nccl_result (*finalize)(nccl_comm comm);
    nccl_result (*destroy)(nccl_comm comm);
    nccl_result (*abort)(nccl_comm comm);
    nccl_result (*async_error)(nccl_comm comm, nccl_result *state);
    const char *(*error_string)(nccl_result result);
    const char *(*last_error)(nccl_comm comm);
    nccl_result (*all_reduce)(const void *in, void *out, size_t n, int type, int op, nccl_comm comm,
                              cu_stream stream);
    nccl_result (*broadcast)(const void *in, void *out, size_t n, int type, int root,
                             nccl_comm comm, cu_stream stream);
    nccl_result (*send)(const void *in, size_t n, int type, int peer, nccl_comm comm,
                        cu_stream stream);
    nccl_result (*recv)(void *out, size_t n, int type, int peer, nccl_comm comm, cu_stream stream);
    nccl_result (*group_start)(void);
    nccl_result (*group_end)(void);
};

/* Loads $CELLSPAN_NCCL_LIBRARY, else the one that is loaded already, else the first of `places`
 * (paths), else the system's. */
MUST_USE int nccl_open(struct nccl *n, const char *const *places, size_t n_places, struct err *err);
/* If the result is not success or in progress: -1, with "what: NCCL's error text". */
MUST_USE int nccl_check(const struct nccl *n, nccl_comm comm, nccl_result result, const char *what,
                        struct err *err);

#endif
