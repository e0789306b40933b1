# kernel/merge: nothing to build yet.
