from .config import Searchspace as Searchspace

__all__ = ["Searchspace"]
