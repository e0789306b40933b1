# SPDX-License-Identifier: BSD-3-Clause
"""What notebooks and their clients expect from a kernel, at home."""
