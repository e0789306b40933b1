# magics: nothing to build yet.
