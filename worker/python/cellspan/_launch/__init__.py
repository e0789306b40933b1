# SPDX-License-Identifier: BSD-3-Clause
"""Engines that are written in Python, because their cluster's client is: each module but `launcher` is one.

docs/launchers.md, "An engine of your own", says what an engine is told and must do. launcher.py does what they share.
"""
