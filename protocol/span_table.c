/* SPDX-License-Identifier: BSD-3-Clause */
/* span_table.c - README.md's table of kinds, row for row: who sends each kind to whom, which thread
 * of a worker takes it, its fields, and the most bytes that each of them may hold. */
#include "protocol/span.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

#define U64(name)        { name, SPAN_U64, 8 }
#define STR(name, max)   { name, SPAN_STR, max }
#define BYTES(name, max) { name, SPAN_BYTES, max }
#define LIST(name, max)  { name, SPAN_LIST, max }

/* README.md's "way": K is the kernel, A an agent, W a worker */
#define K_TO_A SPAN_KERNEL_TO_AGENT
#define A_TO_K SPAN_AGENT_TO_KERNEL
#define A_TO_A SPAN_AGENT_TO_AGENT
#define K_TO_W SPAN_KERNEL_TO_WORKER
#define W_TO_K SPAN_WORKER_TO_KERNEL
#define A_TO_W SPAN_AGENT_TO_WORKER
#define W_TO_A SPAN_WORKER_TO_AGENT

#define HEAD(kind_, ways_, thread_)                                                                \
    .kind = SPAN_##kind_, .name = #kind_, .ways = ways_, .thread = SPAN_THREAD_##thread_
#define COUNT(...) (sizeof((struct span_field[]){ __VA_ARGS__ }) / sizeof(struct span_field))
#define KIND(kind_, ways_, thread_, ...)                                                           \
    [SPAN_##kind_] = { HEAD(kind_, ways_, thread_), .n = COUNT(__VA_ARGS__),                       \
                       .field = { __VA_ARGS__ } }
/* the same, for what travels without a number */
#define LOOSE(kind_, ways_, ...)                                                                   \
    [SPAN_##kind_] = { HEAD(kind_, ways_, NONE), .unnumbered = true, .n = COUNT(__VA_ARGS__),      \
                       .field = { __VA_ARGS__ } }
/* without fields */
#define BARE(kind_, ways_, thread_) [SPAN_##kind_] = { HEAD(kind_, ways_, thread_) }

/* kind, ways, thread of a worker, fields; where there is no name, there is no such kind */
static const struct span_info table[] = {
    LOOSE(HELLO, A_TO_K, U64("version"), STR("node", 256), U64("pid"), U64("cores"),
          STR("addresses", 4 * KIB), STR("software", 64), BYTES("next", 32)),
    LOOSE(WELCOME, K_TO_A, U64("window"), U64("number"), U64("timeout_ms"), U64("resume_ms"),
          U64("agents")),
    LOOSE(REFUSE, K_TO_A, STR("text", 4 * KIB)),
    KIND(START, K_TO_A, NONE, U64("role"), BYTES("ranks", 256 * KIB), STR("group", 256),
         STR("python", 4 * KIB), STR("cwd", 4 * KIB), STR("env", 1 * MIB), U64("gpus"),
         U64("share")),
    KIND(EXITED, A_TO_K, NONE, U64("pid"), U64("code"), U64("status"), STR("cause", 4 * KIB),
         STR("stderr", 64 * KIB), STR("stack", 256 * KIB), STR("gpu", 1 * KIB)),
    KIND(KILL, K_TO_A, NONE, U64("signal"), U64("grace_ms")),
    KIND(CUT_RANKS, K_TO_A, NONE, U64("ask"), BYTES("connections", 1 * MIB)),
    KIND(STACKS, K_TO_A | A_TO_W, READING, U64("until")),
    KIND(STACK, A_TO_K, NONE, STR("text", 256 * KIB)),
    KIND(DROP, K_TO_A, NONE, BYTES("blobs", 1 * MIB)),
    KIND(CREDIT, K_TO_A, NONE, U64("bytes")),
    KIND(LINES, A_TO_K, NONE, U64("stream"), U64("flags"), BYTES("data", 1 * MIB)),
    KIND(PORT, K_TO_A | A_TO_K, NONE, U64("port"), BYTES("more", 32)),
    KIND(WARM, K_TO_A, NONE, STR("python", 4 * KIB)),
    BARE(QUIT, K_TO_A | A_TO_K, NONE),
    LOOSE(BEAT, K_TO_A | A_TO_K, U64("sent"), U64("received")),
    KIND(OPEN, K_TO_A, NONE, U64("node"), BYTES("key", 32)),
    KIND(OPENED, A_TO_K, NONE, U64("node"), U64("port"), STR("error", 4 * KIB)),
    KIND(DIAL, K_TO_A, NONE, U64("node"), STR("endpoints", 4 * KIB), BYTES("key", 32), U64("role")),
    KIND(DIALED, A_TO_K, NONE, U64("node"), STR("error", 4 * KIB)),
    KIND(EXPECT, K_TO_A, NONE, U64("from")),
    KIND(SHIP, K_TO_A, NONE, U64("to"), U64("through")),
    LOOSE(CHUNK, A_TO_K | K_TO_A | A_TO_A, U64("to"), U64("offset"), BYTES("data", 1 * MIB)),
    LOOSE(CHUNK_ACK, A_TO_K | K_TO_A | A_TO_A, U64("to"), U64("bytes")),
    KIND(STORED, A_TO_K, NONE, STR("error", 4 * KIB)),
    KIND(CONNECTIONS, A_TO_K, NONE, BYTES("connections", 1 * MIB)),
    KIND(GPUS, K_TO_A | A_TO_K, NONE, STR("gpus", 256 * KIB), U64("quota"), STR("place", 4 * KIB),
         U64("wait")),
    KIND(GAUGES, K_TO_A | A_TO_K, NONE, STR("gauges", 1 * MIB)),
    KIND(LOGS, K_TO_A | A_TO_K, NONE, U64("of"), BYTES("ranks", 8 * KIB), U64("at"), U64("flags"),
         BYTES("data", 1 * MIB), U64("end")),
    KIND(NOTICE, A_TO_K, NONE, U64("seconds"), U64("signal"), STR("text", 4 * KIB)),
    LOOSE(RESUME, A_TO_K | K_TO_A | A_TO_A, U64("version"), U64("number"), U64("received"),
          BYTES("next", 32)),
    KIND(REQUEST, K_TO_W, MAIN, STR("type", 256), STR("content", 64 * MIB), STR("header", 64 * KIB),
         STR("metadata", 16 * MIB), LIST("buffers", 256 * MIB), U64("count"), U64("flags")),
    KIND(CAPTURE, K_TO_W, CALLING, STR("code", 16 * MIB), STR("names", 1 * MIB), U64("flags"),
         U64("count"), STR("raw", 16 * MIB), STR("cwd", 4 * KIB), STR("script", 64 * KIB),
         STR("bring", 1 * MIB), U64("call")),
    KIND(PACK, K_TO_W, CALLING, STR("names", 1 * MIB)),
    KIND(BIND, K_TO_W, CALLING, STR("names", 1 * MIB), U64("how"), U64("count"),
         STR("broadcast", 1 * MIB), BYTES("value", 16 * KIB)),
    KIND(RUN, K_TO_W, MAIN, STR("code", 16 * MIB), U64("count"), U64("flags"), STR("env", 1 * MIB),
         STR("master", 1 * KIB), STR("init", 64), STR("argv", 1 * MIB), U64("limit"),
         STR("cwd", 4 * KIB), STR("layout", 64 * KIB), STR("names", 1 * MIB),
         BYTES("load", 256 * KIB), STR("seed", 32)),
    KIND(FETCH, K_TO_W, MAIN, STR("names", 1 * MIB), U64("limit"), U64("flags")),
    KIND(INPUT_REPLY, K_TO_W, ASKING, STR("value", 16 * MIB), U64("id")),
    BARE(INTERRUPT, K_TO_W, READING),
    KIND(RETURN, K_TO_W, ASKING, STR("status", 64), STR("content", 64 * MIB), U64("call"),
         LIST("values", 256 * MIB)),
    BARE(EXIT, K_TO_W, MAIN),
    KIND(CUT_SOCKETS, A_TO_W, READING, BYTES("inodes", 64 * KIB), U64("abort")),
    BARE(SYNCED, A_TO_W, READING),
    KIND(PROBE, K_TO_W, MAIN, STR("what", 256), STR("content", 16 * MIB)),
    KIND(FOLLOW, K_TO_W, MAIN, STR("home", 1 * MIB), U64("near")),
    KIND(ASK_REPLY, K_TO_W, ASKING, STR("answers", 64 * MIB)),
    KIND(NEWER, K_TO_W, CALLING, STR("names", 1 * MIB)),
    KIND(HANDED, K_TO_W, CALLING, U64("from"), LIST("load", 256 * MIB), STR("died", 64 * KIB)),
    KIND(COMM, K_TO_W, MAIN, STR("type", 256), STR("content", 64 * MIB), STR("header", 64 * KIB),
         STR("metadata", 16 * MIB), LIST("buffers", 256 * MIB)),
    KIND(DEBUG, K_TO_W, DEBUGGING, STR("message", 64 * MIB)),
    KIND(SUBSHELL, K_TO_W, SUBSHELLS, STR("type", 256), STR("content", 64 * MIB),
         STR("header", 64 * KIB), STR("metadata", 16 * MIB), LIST("buffers", 256 * MIB),
         U64("count"), U64("flags"), STR("id", 64)),
    KIND(FOUND, K_TO_W | W_TO_K, FINDING, STR("what", 256), STR("question", 16 * MIB),
         STR("content", 16 * MIB), U64("more"), U64("modules"), U64("files")),
    BARE(COUNT, K_TO_W, READING),
    KIND(MEET, K_TO_W, ASKING, U64("how"), U64("step")),
    KIND(READY, W_TO_K, NONE, U64("pid"), STR("python", 64), STR("info", 64 * KIB)),
    KIND(REPLY, W_TO_K, NONE, STR("status", 64), STR("content", 64 * MIB),
         STR("metadata", 16 * MIB), LIST("buffers", 256 * MIB)),
    KIND(PUBLISH, W_TO_K, NONE, STR("type", 256), STR("content", 256 * MIB),
         STR("metadata", 16 * MIB), LIST("buffers", 256 * MIB)),
    KIND(CAPTURED, W_TO_K, NONE, STR("names", 16 * MIB), STR("warnings", 1 * MIB)),
    KIND(PACKED, W_TO_K, NONE, STR("error", 64 * KIB), U64("gpu")),
    KIND(DONE, W_TO_K, NONE, STR("status", 64), STR("content", 64 * MIB), STR("result", 64 * MIB),
         STR("note", 64 * KIB), U64("flags"), STR("gone", 1 * MIB), STR("assigned", 1 * MIB),
         BYTES("value", 16 * KIB)),
    KIND(INPUT, W_TO_K, NONE, STR("prompt", 1 * MIB), U64("password"), U64("id"), U64("over")),
    KIND(CALL, W_TO_K, NONE, STR("text", 16 * MIB), U64("flags"), U64("call"),
         STR("names", 16 * MIB), STR("warnings", 1 * MIB), BYTES("load", 256 * KIB)),
    BARE(SYNC, W_TO_A, NONE),
    KIND(PROBED, W_TO_K, NONE, STR("status", 64), STR("content", 16 * MIB)),
    KIND(ASK, W_TO_K, NONE, STR("what", 256), STR("content", 16 * MIB), U64("all")),
    KIND(OUTPUT_PARENT, W_TO_K, NONE, U64("keep")),
    BARE(AWAITS, W_TO_K, NONE),
    KIND(HAND, W_TO_K, NONE, U64("to"), U64("flags"), U64("takes"), LIST("load", 256 * MIB),
         U64("items"), U64("failed"), U64("again")),
    KIND(DEBUGGED, W_TO_K, NONE, STR("message", 64 * MIB)),
    KIND(FIND, W_TO_K | K_TO_W, FINDING, STR("what", 256), STR("question", 16 * MIB)),
    KIND(MET, W_TO_K, NONE, U64("what"), U64("step"), STR("text", 64 * KIB)),
    KIND(PARK, K_TO_A | A_TO_K, NONE, U64("how"), STR("said", 1 * MIB)),
};

#define ROWS (sizeof table / sizeof table[0])

const struct span_info *span_info(unsigned kind)
{
    return kind < ROWS && table[kind].name ? &table[kind] : NULL;
}

const struct span_info *span_info_named(const char *name)
{
    for (unsigned i = 0; i < ROWS; i++)
        if (table[i].name && strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}
