# SPDX-License-Identifier: BSD-3-Clause
"""Modules that the other folders use; these import none of them."""
