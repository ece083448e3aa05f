"""`python3 -m utils.compile [--json]`, or `bash utils/compile.sh`: build the kernels and their binding."""

import sys

from .judge import main

if __name__ == "__main__":
    sys.exit(main("compile", "Build the kernels and their binding."))
