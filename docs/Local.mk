# docs: nothing to build yet.
