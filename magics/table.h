/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h - the magics, in the order in which completion offers them. A magic is a file of this
 * folder that defines `magic_NAME`, and a row here. All others read these: parser, help,
 * completion, the command `cellspan run`, and Python through the extension. */
#ifndef MAGICS_TABLE_H
#define MAGICS_TABLE_H

#define MAGICS(X)                                                                                  \
    X(distribute)                                                                                  \
    X(push)                                                                                        \
    X(pull)                                                                                        \
    X(ranks)

#endif
