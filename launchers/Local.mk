# launchers: nothing to build yet.
