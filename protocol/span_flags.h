/* SPDX-License-Identifier: BSD-3-Clause */
/* span_flags.h - the values of those fields that hold flags, which may be combined, or one of
 * several choices. README.md has the same table and says what each value means; a unit test
 * compares the two. In Python, each value is a constant of cellspan._link under the same name. */
#ifndef PROTOCOL_SPAN_FLAGS_H
#define PROTOCOL_SPAN_FLAGS_H

/* kind, field, name, value */
#define SPAN_FLAGS(X)                                                                              \
    X(START, role, START_HOME, 0)                                                                  \
    X(START, role, START_RANK, 1)                                                                  \
    X(START, role, START_SCRIPT, 2)                                                                \
    X(START, role, START_BESIDE, 3)                                                                \
    X(START, share, START_SHARE, 1)                                                                \
    X(START, share, START_OWN, 2)                                                                  \
    X(EXITED, code, EXITED_STATUS, 0)                                                              \
    X(EXITED, code, EXITED_SIGNAL, 1)                                                              \
    X(EXITED, code, EXITED_UNKNOWN, 2)                                                             \
    X(LINES, flags, LINES_WITHIN, 1)                                                               \
    X(LINES, flags, LINES_PROGRESS, 2)                                                             \
    X(DIAL, role, DIAL_PARENT, 0)                                                                  \
    X(DIAL, role, DIAL_BLOBS, 1)                                                                   \
    X(DIAL, role, DIAL_BLOBS_ANEW, 2)                                                              \
    X(LOGS, flags, LOGS_MORE, 1)                                                                   \
    X(LOGS, flags, LOGS_LOST, 2)                                                                   \
    X(REQUEST, flags, REQUEST_SILENT, 1)                                                           \
    X(REQUEST, flags, REQUEST_STORE, 2)                                                            \
    X(REQUEST, flags, REQUEST_STDIN, 4)                                                            \
    X(CAPTURE, flags, CAPTURE_NONE, 1)                                                             \
    X(CAPTURE, flags, CAPTURE_RECORD, 2)                                                           \
    X(CAPTURE, flags, CAPTURE_SCRIPT, 4)                                                           \
    X(CAPTURE, flags, CAPTURE_PUSH, 8)                                                             \
    X(CAPTURE, flags, CAPTURE_PYTHON, 16)                                                          \
    X(CAPTURE, flags, CAPTURE_FAR, 32)                                                             \
    X(CAPTURE, flags, CAPTURE_NO_CODE, 64)                                                         \
    X(CAPTURE, flags, CAPTURE_ENGINE, 128)                                                         \
    X(BIND, how, BIND_DICT, 0)                                                                     \
    X(BIND, how, BIND_VALUE, 1)                                                                    \
    X(BIND, how, BIND_MORE, 2)                                                                     \
    X(BIND, how, BIND_LAST, 3)                                                                     \
    X(BIND, how, BIND_LISTS, 4)                                                                    \
    X(RUN, flags, RUN_RESULT, 1)                                                                   \
    X(RUN, flags, RUN_NO_DISPLAY, 2)                                                               \
    X(RUN, flags, RUN_STDIN, 4)                                                                    \
    X(RUN, flags, RUN_SCRIPT, 8)                                                                   \
    X(RUN, flags, RUN_RESULT_ALWAYS, 16)                                                           \
    X(RUN, flags, RUN_PIPED, 32)                                                                   \
    X(RUN, flags, RUN_VALUE, 64)                                                                   \
    X(RUN, flags, RUN_RESULT_EACH, 128)                                                            \
    X(FETCH, flags, FETCH_KEEP, 1)                                                                 \
    X(FETCH, flags, FETCH_DICT, 2)                                                                 \
    X(CAPTURED, names, CAPTURED_READ, 0)                                                           \
    X(CAPTURED, names, CAPTURED_NAMED, 1)                                                          \
    X(CAPTURED, names, CAPTURED_PUSHED, 2)                                                         \
    X(CAPTURED, names, CAPTURED_SPARE, 3)                                                          \
    X(CAPTURED, names, CAPTURED_PULLED, 4)                                                         \
    X(CAPTURED, names, CAPTURED_TIED, 5)                                                           \
    X(CAPTURED, names, CAPTURED_MAYBE, 6)                                                          \
    X(CAPTURED, names, CAPTURED_COMPUTED, 7)                                                       \
    X(DONE, flags, DONE_DISTRIBUTED, 1)                                                            \
    X(DONE, flags, DONE_UNBOUND, 2)                                                                \
    X(DONE, flags, DONE_ABORTED, 4)                                                                \
    X(DONE, flags, DONE_OWN_ERROR, 8)                                                              \
    X(CALL, flags, CALL_SHOWN, 1)                                                                  \
    X(CALL, flags, CALL_VALUE, 2)                                                                  \
    X(CALL, flags, CALL_ASYNC, 4)                                                                  \
    X(CALL, flags, CALL_FUNCTION, 8)                                                               \
    X(CALL, flags, CALL_INTERRUPT, 16)                                                             \
    X(CALL, flags, CALL_OUTLIVES, 32)                                                              \
    X(CALL, flags, CALL_UNMEASURED, 64)                                                            \
    X(CALL, flags, CALL_CHECKED, 128)                                                              \
    X(HAND, flags, HAND_ANY, 1)                                                                    \
    X(HAND, flags, HAND_MORE, 2)                                                                   \
    X(HAND, flags, HAND_LAST, 4)                                                                   \
    X(HAND, flags, HAND_DROP, 8)                                                                   \
    X(HAND, flags, HAND_FINISHED, 16)                                                              \
    X(HAND, flags, HAND_STOP, 32)                                                                  \
    X(MEET, how, MEET_AT, 0)                                                                       \
    X(MEET, how, MEET_RUN, 1)                                                                      \
    X(MEET, how, MEET_NOW, 2)                                                                      \
    X(MEET, how, MEET_OFF, 3)                                                                      \
    X(MET, what, MET_HAS, 0)                                                                       \
    X(MET, what, MET_LACKS, 1)                                                                     \
    X(MET, what, MET_COUNT, 2)                                                                     \
    X(MET, what, MET_THERE, 3)                                                                     \
    X(MET, what, MET_RAN, 4)                                                                       \
    X(MET, what, MET_FAILED, 5)                                                                    \
    X(PARK, how, PARK_BACK, 1)                                                                     \
    X(PARK, how, PARK_NCCL, 2)                                                                     \
    X(PARK, how, PARK_WAIT, 4)

#define SPAN_FLAG(kind, field, name, value) name = (value),
enum { SPAN_FLAGS(SPAN_FLAG) };
#undef SPAN_FLAG

#endif
