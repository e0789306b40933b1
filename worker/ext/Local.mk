# worker/ext: nothing to build yet.
