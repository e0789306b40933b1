"""What notebooks and their clients expect of a kernel at home."""
