from .config import *
from .config import __all__ as __all__
