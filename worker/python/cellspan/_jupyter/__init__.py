"""What notebooks and their clients expect from a kernel, at home."""
