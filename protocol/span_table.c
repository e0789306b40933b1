/* SPDX-License-Identifier: BSD-3-Clause */
/* span_table.c - README.md's table of kinds, row for row: the fields of each kind and the most
 * bytes that each may hold. */
#include "protocol/span.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

#define NONE             { NULL, SPAN_U64, 0 }
#define U64(name)        { name, SPAN_U64, 8 }
#define STR(name, max)   { name, SPAN_STR, max }
#define BYTES(name, max) { name, SPAN_BYTES, max }
#define LIST(name, max)  { name, SPAN_LIST, max }

static const struct span_info table[] = {
    { SPAN_HELLO,
      "HELLO",
      6,
      { U64("version"), STR("node", 256), U64("pid"), U64("cores"), STR("addresses", 4 * KIB),
        STR("software", 64) } },
    { SPAN_WELCOME, "WELCOME", 3, { U64("window"), U64("number"), U64("timeout_ms") } },
    { SPAN_REFUSE, "REFUSE", 1, { STR("text", 4 * KIB) } },
    { SPAN_START,
      "START",
      8,
      { U64("role"), BYTES("ranks", 256 * KIB), STR("group", 256), STR("python", 4 * KIB),
        STR("cwd", 4 * KIB), STR("env", 1 * MIB), U64("gpus"), U64("share") } },
    { SPAN_EXITED,
      "EXITED",
      7,
      { U64("pid"), U64("code"), U64("status"), STR("cause", 4 * KIB), STR("stderr", 64 * KIB),
        STR("stack", 256 * KIB), STR("gpu", 1 * KIB) } },
    { SPAN_KILL, "KILL", 2, { U64("signal"), U64("grace_ms") } },
    { SPAN_SEVER, "SEVER", 2, { U64("ask"), BYTES("ends", 1 * MIB) } },
    { SPAN_STACKS, "STACKS", 1, { U64("until") } },
    { SPAN_STACK, "STACK", 1, { STR("text", 256 * KIB) } },
    { SPAN_DROP, "DROP", 1, { BYTES("blobs", 1 * MIB) } },
    { SPAN_CREDIT, "CREDIT", 1, { U64("bytes") } },
    { SPAN_LINES, "LINES", 3, { U64("stream"), U64("flags"), BYTES("data", 1 * MIB) } },
    { SPAN_PORT, "PORT", 2, { U64("port"), BYTES("more", 32) } },
    { SPAN_WARM, "WARM", 1, { STR("python", 4 * KIB) } },
    { SPAN_QUIT, "QUIT", 0, { NONE } },
    { SPAN_BEAT, "BEAT", 1, { U64("sent") } },
    { SPAN_OPEN, "OPEN", 2, { U64("node"), BYTES("key", 32) } },
    { SPAN_OPENED, "OPENED", 3, { U64("node"), U64("port"), STR("error", 4 * KIB) } },
    { SPAN_DIAL,
      "DIAL",
      4,
      { U64("node"), STR("endpoints", 4 * KIB), BYTES("key", 32), U64("role") } },
    { SPAN_DIALED, "DIALED", 2, { U64("node"), STR("error", 4 * KIB) } },
    { SPAN_EXPECT, "EXPECT", 1, { U64("from") } },
    { SPAN_SHIP, "SHIP", 2, { U64("to"), U64("through") } },
    { SPAN_CHUNK, "CHUNK", 3, { U64("to"), U64("offset"), BYTES("data", 1 * MIB) } },
    { SPAN_TAKEN, "TAKEN", 2, { U64("to"), U64("bytes") } },
    { SPAN_HELD, "HELD", 1, { STR("error", 4 * KIB) } },
    { SPAN_ENDS, "ENDS", 1, { BYTES("ends", 1 * MIB) } },
    { SPAN_GPUS, "GPUS", 1, { STR("gpus", 256 * KIB) } },
    { SPAN_GAUGES, "GAUGES", 1, { STR("gauges", 1 * MIB) } },
    { SPAN_LOGS,
      "LOGS",
      6,
      { U64("of"), BYTES("ranks", 8 * KIB), U64("at"), U64("flags"), BYTES("data", 1 * MIB),
        U64("end") } },
    { SPAN_REQUEST,
      "REQUEST",
      7,
      { STR("type", 256), STR("content", 64 * MIB), STR("header", 64 * KIB),
        STR("metadata", 16 * MIB), LIST("buffers", 256 * MIB), U64("count"), U64("flags") } },
    { SPAN_CAPTURE,
      "CAPTURE",
      7,
      { STR("code", 16 * MIB), STR("names", 1 * MIB), U64("flags"), U64("count"),
        STR("raw", 16 * MIB), STR("cwd", 4 * KIB), STR("script", 64 * KIB) } },
    { SPAN_PACK, "PACK", 1, { STR("names", 1 * MIB) } },
    { SPAN_BIND,
      "BIND",
      5,
      { STR("names", 1 * MIB), U64("how"), U64("count"), STR("broadcast", 1 * MIB),
        BYTES("value", 16 * KIB) } },
    { SPAN_RUN,
      "RUN",
      13,
      { STR("code", 16 * MIB), U64("count"), U64("flags"), STR("env", 1 * MIB),
        STR("meets", 1 * KIB), STR("init", 64), STR("argv", 1 * MIB), U64("limit"),
        STR("cwd", 4 * KIB), STR("layout", 64 * KIB), STR("names", 1 * MIB),
        BYTES("load", 256 * KIB), STR("seed", 32) } },
    { SPAN_FETCH, "FETCH", 3, { STR("names", 1 * MIB), U64("limit"), U64("flags") } },
    { SPAN_INPUT_REPLY, "INPUT_REPLY", 2, { STR("value", 16 * MIB), U64("id") } },
    { SPAN_INTERRUPT, "INTERRUPT", 0, { NONE } },
    { SPAN_RETURN,
      "RETURN",
      4,
      { STR("status", 64), STR("content", 64 * MIB), U64("call"), LIST("values", 256 * MIB) } },
    { SPAN_EXIT, "EXIT", 0, { NONE } },
    { SPAN_CUT, "CUT", 2, { BYTES("inodes", 64 * KIB), U64("abort") } },
    { SPAN_SYNCED, "SYNCED", 0, { NONE } },
    { SPAN_PROBE, "PROBE", 2, { STR("what", 256), STR("content", 16 * MIB) } },
    { SPAN_FOLLOW, "FOLLOW", 2, { STR("home", 1 * MIB), U64("near") } },
    { SPAN_TOLD, "TOLD", 1, { STR("answers", 64 * MIB) } },
    { SPAN_NEWER, "NEWER", 1, { STR("names", 1 * MIB) } },
    { SPAN_HANDED, "HANDED", 3, { U64("from"), LIST("parts", 256 * MIB), STR("died", 64 * KIB) } },
    { SPAN_COMM,
      "COMM",
      5,
      { STR("type", 256), STR("content", 64 * MIB), STR("header", 64 * KIB),
        STR("metadata", 16 * MIB), LIST("buffers", 256 * MIB) } },
    { SPAN_DEBUG, "DEBUG", 1, { STR("message", 64 * MIB) } },
    { SPAN_SUBSHELL,
      "SUBSHELL",
      8,
      { STR("type", 256), STR("content", 64 * MIB), STR("header", 64 * KIB),
        STR("metadata", 16 * MIB), LIST("buffers", 256 * MIB), U64("count"), U64("flags"),
        STR("id", 64) } },
    { SPAN_READY, "READY", 3, { U64("pid"), STR("python", 64), STR("info", 64 * KIB) } },
    { SPAN_REPLY,
      "REPLY",
      4,
      { STR("status", 64), STR("content", 64 * MIB), STR("metadata", 16 * MIB),
        LIST("buffers", 256 * MIB) } },
    { SPAN_PUBLISH,
      "PUBLISH",
      4,
      { STR("type", 256), STR("content", 256 * MIB), STR("metadata", 16 * MIB),
        LIST("buffers", 256 * MIB) } },
    { SPAN_CAPTURED, "CAPTURED", 2, { STR("names", 16 * MIB), STR("warnings", 1 * MIB) } },
    { SPAN_PACKED, "PACKED", 2, { STR("error", 64 * KIB), U64("gpu") } },
    { SPAN_DONE,
      "DONE",
      8,
      { STR("status", 64), STR("content", 64 * MIB), STR("result", 64 * MIB), STR("note", 64 * KIB),
        U64("flags"), STR("gone", 1 * MIB), STR("assigned", 1 * MIB), BYTES("value", 16 * KIB) } },
    { SPAN_INPUT, "INPUT", 4, { STR("prompt", 1 * MIB), U64("password"), U64("id"), U64("over") } },
    { SPAN_CALL,
      "CALL",
      6,
      { STR("text", 16 * MIB), U64("flags"), U64("call"), STR("names", 16 * MIB),
        STR("warnings", 1 * MIB), BYTES("load", 256 * KIB) } },
    { SPAN_SYNC, "SYNC", 0, { NONE } },
    { SPAN_PROBED, "PROBED", 2, { STR("status", 64), STR("content", 16 * MIB) } },
    { SPAN_ASK, "ASK", 3, { STR("what", 256), STR("content", 16 * MIB), U64("all") } },
    { SPAN_OWNER, "OWNER", 1, { U64("keep") } },
    { SPAN_AWAITS, "AWAITS", 0, { NONE } },
    { SPAN_HAND,
      "HAND",
      7,
      { U64("to"), U64("flags"), U64("takes"), LIST("parts", 256 * MIB), U64("items"),
        U64("failed"), U64("again") } },
    { SPAN_DEBUGGED, "DEBUGGED", 1, { STR("message", 64 * MIB) } },
};

#define ROWS (sizeof table / sizeof table[0])

const struct span_info *span_info(unsigned kind)
{
    for (unsigned i = 0; i < ROWS; i++)
        if ((unsigned)table[i].kind == kind)
            return &table[i];
    return NULL;
}

const struct span_info *span_info_named(const char *name)
{
    for (unsigned i = 0; i < ROWS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}
