# tests/e2e: nothing to build yet.
