# tests/fuzz: nothing to build yet.
