"""Modules that the other folders use; these import none of them."""
