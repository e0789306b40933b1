# worker/python: nothing to build yet.
