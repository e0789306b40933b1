# worker/agent: nothing to build yet.
