# kernel/command: nothing to build yet.
