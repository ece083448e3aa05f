"""`python3 -m launch COMMAND`: set up what the command needs, then run it under `.venv`."""

from __future__ import annotations

import os
import sys

from launch.console import LaunchError, complain
from launch.environment import go_on, prepare

_NEED_DEVELOPMENT_PACKAGES = ("check", "test", "setup-dev")


def main(arguments: list[str]) -> int:
    dev = bool(arguments) and arguments[0] in _NEED_DEVELOPMENT_PACKAGES
    try:
        prepare(os.environ, dev=dev)
    except LaunchError as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        complain("Stopped. The same command goes on where this one was.")
        return 130
    go_on(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
