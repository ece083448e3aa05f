"""`python3 -m utils.verification [--json]`: build, run and compare with the reference."""

import sys

from .judge import main

if __name__ == "__main__":
    sys.exit(main("verify", "Build the candidate, run it and compare it with the reference."))
