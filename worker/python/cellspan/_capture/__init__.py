# SPDX-License-Identifier: BSD-3-Clause
"""Sending variables between home and ranks: which ones a cell needs, their bytes, and whether they changed."""
