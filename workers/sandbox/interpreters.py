"""What must be readable for a Python interpreter to run inside a sandbox. The interpreter is asked itself."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path

from workers.sandbox.profiles import SandboxError

_QUESTION = """
import json, sys, sysconfig
paths = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
paths += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
paths += [sysconfig.get_config_var("LIBDIR") or ""] if sysconfig.get_config_var("Py_ENABLE_SHARED") else []
paths += sys.path
print(json.dumps(paths))
"""
_ANSWER_S = 30.0
_SHOWN_ANYWAY = (Path("/usr"), Path("/lib"), Path("/lib64"), Path("/bin"), Path("/sbin"))
_TOO_MUCH = (Path("/"), Path("/home"), Path("/root"), Path("/var"), Path("/opt"))


@functools.cache
def python_profile_paths(python: Path) -> tuple[Path, ...]:
    """Host paths to put into `Profile.readable` so that `python` runs inside with all that it imports.

    The virtual environment, the installation below it, and every further folder of its import path; and where
    `python` is a link, all that the chain of links passes. Folders of the system itself are left out,
    and so is a folder that holds another one of the list. Raises `SandboxError` if it cannot run.
    """
    executable = Path(os.path.abspath(python))  # noqa: PTH100 - links must stay links here
    try:
        answer = subprocess.run(  # noqa: S603 - the operator's own interpreter
            [str(executable), "-P", "-c", _QUESTION],
            capture_output=True,
            timeout=_ANSWER_S,
            check=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )
        told = [Path(path) for path in json.loads(answer.stdout) if path]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SandboxError(f"the interpreter {python} cannot be run: {error}") from error
    wanted: set[Path] = set()
    for path in (*told, *_links(executable)):
        wanted |= {path, path.resolve()}
    useful = {path for path in wanted if path.exists() and not _shown_anyway(path)}
    refused = sorted(str(path) for path in useful if path in _TOO_MUCH)
    if refused:
        raise SandboxError(
            f"the interpreter {python} would need all of {refused[0]} to be readable"
        )
    return tuple(sorted(path for path in useful if not any(p in useful for p in path.parents)))


def _links(executable: Path) -> list[Path]:
    """Every link on the way from the executable to the real file, and that file."""
    chain = [executable]
    while chain[-1].is_symlink() and len(chain) < 40:
        # Not resolved: the next link is followed by the loop, and folders on the way stay as they are named.
        target = os.path.normpath(chain[-1].parent / chain[-1].readlink())
        chain.append(Path(target))
    return chain


def _shown_anyway(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _SHOWN_ANYWAY)
