"""`python3 -m utils.profiling [--json]`: build, compare and time against eager."""

import sys

from .judge import main

if __name__ == "__main__":
    sys.exit(main("profile", "Build the candidate, compare it and time it against eager."))
