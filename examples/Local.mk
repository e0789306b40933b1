# SPDX-License-Identifier: BSD-3-Clause
# examples: nothing to build yet.
