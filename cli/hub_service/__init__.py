# SPDX-License-Identifier: BSD-3-Clause
"""`cellspan ps --all` as a service of JupyterHub. __main__.py says how it is started."""
