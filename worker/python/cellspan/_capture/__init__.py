"""Sending variables between home and ranks: which ones a cell needs, their bytes, and whether they changed."""
