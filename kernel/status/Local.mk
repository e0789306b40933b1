# kernel/status: nothing to build yet.
