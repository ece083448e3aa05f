"""Commands that set Warpsmith up and run it: up, demo, test, check, bench.

Standard library only, and nothing of the other packages: this is what runs before anything is
installed. The modules that run under the system's own Python (`__main__`, `console`, `places`,
`prerequisites`, `environment`) keep to syntax that an older Python can read, so that it can say in a
sentence that it is too old. The rest runs under the interpreter of `.venv`.
"""
