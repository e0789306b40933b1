# protocol: nothing to build yet.
