# kernel/jupyter: nothing to build yet.
