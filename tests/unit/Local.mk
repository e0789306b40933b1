# tests/unit: nothing to build yet.
