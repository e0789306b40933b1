# SPDX-License-Identifier: BSD-3-Clause
"""The processes of home, the zygote and the ranks. `python -m cellspan._worker` starts home or a zygote."""
