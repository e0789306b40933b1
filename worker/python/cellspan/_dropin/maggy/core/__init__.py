# SPDX-License-Identifier: BSD-3-Clause
"""Maggy's package of this name has its exceptions."""
