/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/collective/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/settings.h"

#define PLACES_MAX            16u
#define NEEDS(member, symbol) LIBRARY_NEEDS(struct nccl, member, symbol)
#define LIKES(member, symbol) LIBRARY_LIKES(struct nccl, member, symbol)

static const struct library_row rows[] = {
    NEEDS(get_version, "ncclGetVersion"),
    NEEDS(get_id, "ncclGetUniqueId"),
    NEEDS(init, "ncclCommInitRankConfig"),
    NEEDS(finalize, "ncclCommFinalize"),
    NEEDS(destroy, "ncclCommDestroy"),
    NEEDS(abort, "ncclCommAbort"),
    NEEDS(async_error, "ncclCommGetAsyncError"),
    NEEDS(error_string, "ncclGetErrorString"),
    LIKES(last_error, "ncclGetLastError"),
    NEEDS(all_reduce, "ncclAllReduce"),
    NEEDS(broadcast, "ncclBroadcast"),
    NEEDS(send, "ncclSend"),
    NEEDS(recv, "ncclRecv"),
    NEEDS(group_start, "ncclGroupStart"),
    NEEDS(group_end, "ncclGroupEnd"),
};

static int fill(struct nccl *n, const char *used, struct err *err)
{
    snprintf(n->path, sizeof n->path, "%s", used);
    /* Check the version first, so that the error for an old library is not a missing symbol. */
    if (library_fill(n->library, used, rows, 1, n, err) < 0)
        return -1;
    if (n->get_version(&n->version) != NCCL_SUCCESS)
        return err_set(err, "%s does not tell its version", used);
    if (n->version < NCCL_LEAST)
        return err_set(err, "%s is NCCL %d; 2.14 or newer is needed: update torch, or NCCL", used,
                       n->version);
    return library_fill(n->library, used, rows, sizeof rows / sizeof rows[0], n, err);
}

int nccl_open(struct nccl *n, const char *const *places, size_t n_places, struct err *err)
{
    const char *set = setting_text(SETTING_NCCL_LIBRARY), *used = "";
    const char *names[PLACES_MAX + 1];
    size_t count = 0;
    struct err why = { "" };

    memset(n, 0, sizeof *n);
    if (set) {
        names[count++] = set;
    } else {
        for (size_t i = 0; i < n_places && count < PLACES_MAX; i++)
            names[count++] = places[i];
        names[count++] = "libnccl.so.2";
    }
    if (!(n->library = library_open(names, count, &used, &why)))
        return err_set(err, "no NCCL here (%s)", why.text);
    if (fill(n, used, err) == 0)
        return 0;
    library_close(n->library);
    n->library = NULL;
    return -1;
}

int nccl_check(const struct nccl *n, nccl_comm comm, nccl_result result, const char *what,
               struct err *err)
{
    const char *words, *last;

    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS)
        return 0;
    words = n->error_string(result);
    last = n->last_error ? n->last_error(comm) : NULL;
    return err_set(err, "%s: %s%s%s (NCCL error %d)", what, words ? words : "failed",
                   last && last[0] ? ": " : "", last ? last : "", result);
}
