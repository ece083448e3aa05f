"""The way home: unpack a source zip, install it as its reader would, call it, compare."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launch.console import LaunchError
from launch.places import VENV_PYTHON

BUILD_S = 300
CALL_S = 300

# Runs in a process of its own, because only that one may import torch. Not the exported code's own
# check: this compares from outside, with inputs and parameters that the reference makes.
_COMPARE = """
import importlib, json, sys, torch
package = importlib.import_module(sys.argv[1])
reference = importlib.import_module(sys.argv[1] + ".reference")
torch.manual_seed(20)
arguments = reference.get_init_inputs()
original = reference.Model(*arguments).eval()
fast = package.ModelNew(*arguments).eval()
fast.load_state_dict(original.state_dict(), strict=True)
inputs = reference.get_inputs()
copies = [x.clone() if torch.is_tensor(x) else x for x in inputs]
with torch.no_grad():
    expected, actual = original(*inputs), fast(*copies)
def tensors(value):
    if torch.is_tensor(value):
        return [value]
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    return [tensor for item in value for tensor in tensors(item)]
expected, actual = tensors(expected), tensors(actual)
worst = 0.0
same_form = len(expected) == len(actual)
for a, b in zip(expected, actual):
    same_form = same_form and a.shape == b.shape and a.dtype == b.dtype
    if same_form:
        a, b = a.double(), b.double()
        worst = max(worst, float(((a - b).pow(2).mean().sqrt()) / (a.pow(2).mean().sqrt() + 1e-30)))
print(json.dumps({"same_form": same_form, "relative_error": worst, "outputs": len(expected)}))
"""

TOLERATED = 1e-3
"""Largest relative RMS error against eager; the judge's own bound was stricter and against fp64."""


@dataclass(frozen=True)
class Called:
    """What came of calling the installed package."""

    package: str
    outputs: int
    relative_error: float


def build_and_call(archive: bytes, folder: Path, environ: Mapping[str, str]) -> Called:
    """The whole way: unpack, install, call, compare; a `LaunchError` where it breaks."""
    project = unpack(archive, folder / "source")
    install(project, folder / "installed", environ)
    return call(package_of(project), folder / "installed", environ)


def unpack(archive: bytes, folder: Path) -> Path:
    """Unpack a source zip; returns the project's folder inside."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        names = file.namelist()
        roots = {name.split("/")[0] for name in names}
        if len(roots) != 1 or any(".." in name or name.startswith("/") for name in names):
            raise LaunchError("The source zip does not hold one folder.")
        file.extractall(folder)
    return folder / roots.pop()


def install(project: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Build and install the project into a folder, with what is installed here and no network."""
    command = [str(VENV_PYTHON), "-m", "pip", "install", "--no-index", "--no-deps", "-q"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(folder), "."]
    _run(command, project, environ, BUILD_S, "The exported project could not be built")


def call(package: str, folder: Path, environ: Mapping[str, str]) -> Called:
    """Call the installed package and the model it stands for; a `LaunchError` if they differ."""
    inner = {**environ, "PYTHONPATH": str(folder)}
    command = [str(VENV_PYTHON), "-P", "-W", "ignore", "-c", _COMPARE, package]
    output = _run(command, folder, inner, CALL_S, "The exported package could not be called")
    data = json.loads(output.strip().splitlines()[-1])
    if not data["same_form"] or data["relative_error"] > TOLERATED:
        raise LaunchError(
            "The exported package's output differs from the model's "
            f"(relative error {data['relative_error']:.2g})."
        )
    return Called(package, data["outputs"], data["relative_error"])


def package_of(project: Path) -> str:
    """The import name of an unpacked project."""
    found = [path.parent.name for path in project.glob("src/*/__init__.py")]
    if len(found) != 1:
        raise LaunchError("The exported project does not hold one package.")
    return found[0]


def _run(
    command: list[str], folder: Path, environ: Mapping[str, str], limit_s: float, failure: str
) -> str:
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"{failure} within {limit_s:.0f} s.") from error
    if result.returncode:
        lines = (result.stdout + result.stderr).strip().splitlines()[-12:]
        raise LaunchError("\n".join([f"{failure}; its last lines:", *lines]))
    return result.stdout
