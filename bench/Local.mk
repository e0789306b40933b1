# bench: nothing to build yet.
