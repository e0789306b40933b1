# SPDX-License-Identifier: BSD-3-Clause
"""Engines that are written in Python, because their cluster's client is: ray.py and spark.py, whose other files begin with its name.

docs/launchers.md, "An engine of your own", says what an engine is told and must do. launcher.py does what they share, engine_reports.py tells
the kernel, and client_log.py keeps what the client's library prints.
"""
