# SPDX-License-Identifier: BSD-3-Clause
from ..config import *
from ..config import __all__ as __all__
