# SPDX-License-Identifier: BSD-3-Clause
"""The notebook's own modules on ranks of other machines."""
