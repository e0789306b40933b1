"""Variables on their way between home and ranks: which ones a cell needs, their bytes, what changed."""
