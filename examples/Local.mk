# examples: nothing to build yet.
