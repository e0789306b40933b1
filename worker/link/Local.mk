# worker/link: nothing to build yet.
