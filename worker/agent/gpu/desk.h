/* desk.h - structs and functions that the files behind gpu.h share. */
#ifndef WORKER_AGENT_GPU_DESK_H
#define WORKER_AGENT_GPU_DESK_H

#include "worker/agent/gpu/client.h"
#include "worker/agent/gpu/gpu.h"
#include "worker/agent/gpu/gpus.h"

struct hold {
    char uuid[GPU_TEXT];
    char visible[GPU_TEXT]; /* as CUDA_VISIBLE_DEVICES names it */
    int fd;                 /* the lease */
    bool lost;              /* somebody else has it, too, and this was logged */
};

/* The GPUs of one worker. */
struct seat {
    struct seat *next;
    uint32_t worker;
    bool share;
    bool lent; /* its leases are duplicates of another seat's, which keep.c looks after */
    bool own;  /* its worker sees no other GPUs */
    unsigned n;
    struct hold hold[];
};

struct gpu_desk {
    struct loop *loop; /* borrowed */
    struct client *client;
    struct gpus gpus; /* the last list */
    bool known;
    struct seat *seat;    /* a list */
    int folder;           /* the folder of the leases; -1: not opened yet */
    struct watch *keeper; /* a timer while there are leases */
};

struct seat *desk_seat(const struct gpu_desk *d, uint32_t worker); /* NULL: none */
unsigned desk_uses(const struct gpu_desk *d, const char *uuid);    /* number of our own workers */
/* The folder of the leases, or -1. */
int desk_folder(struct gpu_desk *d, struct err *err);
const char *desk_notebook(void); /* this agent's notebook, for other users to read; "": unknown */
/* Checks the leases once a second from now on, as long as there are any. */
void desk_keep(struct gpu_desk *d);
/* [{"worker", "pid", "who", "gpus"}]. NULL: memory is out. */
json_t *desk_workers(const struct gpu_desk *d, const struct gpu_worker *worker, size_t n);
json_t *seat_uuids(const struct seat *s); /* s may be NULL: an empty list */

#endif
