"""Maggy's package of this name has its exceptions."""
