# kernel: nothing to build yet.
