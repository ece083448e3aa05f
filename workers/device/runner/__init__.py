"""A runner: the sandboxed process in which user code runs. Everything that it says is a claim."""
