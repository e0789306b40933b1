# SPDX-License-Identifier: BSD-3-Clause
"""How cellspan comes to a machine that lacks it: what is sent is made here, and unpacked there."""
