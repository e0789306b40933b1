# SPDX-License-Identifier: BSD-3-Clause
# tests/e2e: nothing to build yet.
