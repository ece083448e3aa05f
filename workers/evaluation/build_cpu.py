"""The target `cpu`: how its sources are compiled and linked. `cuda` will be one more module like this.

Flags are fixed; nothing of them comes from a snapshot. Kernels see the system's headers only, bindings see
torch's as well, under /toolchain, so that no path of this machine gets into a library or a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from workers.evaluation.build_toolchain import Compiler, TorchHeaders
from workers.evaluation.build_tools import ToolLimits, ToolRun
from workers.workspace.binding import TORCH_TARGET_VERSION

_GIB = 1 << 30
BINDING = "generated/binding.cpp"
STUB = "generated/stub.cpp"
_HEADERS = (".h", ".hpp", ".inc", ".cuh")
_TORCH = "/toolchain/torch"
_PYTHON = "/toolchain/python"
_PYBIND_LIMITS = ToolLimits(wall_s=240.0, cpu_s=150, memory_bytes=4 * _GIB)
"""A torch header of the pybind kind costs 17 to 25 s by itself."""


@dataclass(frozen=True)
class CpuRecipes:
    """Compiler runs for one build."""

    compiler: Compiler
    limits: ToolLimits

    def kernel(self, path: str, files: Mapping[str, bytes]) -> ToolRun:
        """Compile one kernel source without any torch header."""
        words = (
            *self._common(),
            "-O3",
            "-march=native",
            "-fno-math-errno",
            "-fopenmp",
            "-Wall",
            "-I.",
            "-Ikernels",
        )
        return ToolRun((*words, "-c", path), _with_headers(path, files), limits=self.limits)

    def binding(self, source: str, torch: TorchHeaders) -> ToolRun:
        """Compile the generated binding. Not tuned to this processor: it only passes pointers on."""
        words = (*self._common(), "-O2", f"-DTORCH_TARGET_VERSION={TORCH_TARGET_VERSION}")
        words = (*words, "-isystem", _TORCH, "-c", BINDING)
        return ToolRun(words, {BINDING: source.encode()}, {_TORCH: torch.include}, self.limits)

    def stub(self, source: str) -> ToolRun:
        """Compile launchers that do nothing."""
        return ToolRun(
            (*self._common(), "-O2", "-c", STUB), {STUB: source.encode()}, limits=self.limits
        )

    def written_binding(
        self, path: str, files: Mapping[str, bytes], torch: TorchHeaders
    ) -> ToolRun:
        """Compile a binding that the author wrote against torch's C++ and Python interface."""
        # Hidden as pybind11's own types are; otherwise each registry that holds some is warned about.
        words = (*self._common(), "-O2", "-fvisibility=hidden", "-fopenmp", "-Wall")
        words = (*words, "-I.", "-Ikernels")
        words = (*words, "-DTORCH_EXTENSION_NAME=cuda_extension", "-DTORCH_API_INCLUDE_EXTENSION_H")
        includes = (_TORCH, f"{_TORCH}/torch/csrc/api/include", _PYTHON)
        words = (*words, *(word for name in includes for word in ("-isystem", name)))
        mounted = {_TORCH: torch.include, _PYTHON: torch.python_include}
        return ToolRun((*words, "-c", path), _with_headers(path, files), mounted, _PYBIND_LIMITS)

    def stand_in(self, name: str, symbols: Iterable[str]) -> ToolRun:
        """A library that only has a name and some symbols, to link against instead of torch's own.

        Linking with torch's libraries costs half a second and names more than the binding may use.
        """
        lines = [f"void {symbol}(void) {{}}" for symbol in sorted(symbols)]
        source = "\n".join(["/* Stands in for a library of torch. */", *lines, ""])
        words = (str(self.compiler.path), "-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{name}")
        return ToolRun(
            (*words, "-Wl,--build-id=none", "-w", "-fno-builtin", "-x", "c", "stand_in.c"),
            {"stand_in.c": source.encode()},
            limits=self.limits,
        )

    def link(
        self, objects: Mapping[str, bytes], stand_ins: Mapping[str, bytes], *, complete: bool
    ) -> ToolRun:
        """Link objects, named by their sources. `complete` refuses every undefined symbol."""
        named = {f"{path}.o": content for path, content in objects.items()}
        words = [str(self.compiler.path), "-shared", "-fopenmp", "-Wl,-Bsymbolic", "-Wl,-z,now"]
        words += ["-Wl,-z,relro", "-Wl,-z,noexecstack", "-Wl,--build-id=none"]
        words += ["-Wl,-z,defs"] if complete else ["-Wl,--no-as-needed"]
        words += [*named, *stand_ins]
        return ToolRun(tuple(words), {**named, **stand_ins}, limits=self.limits)

    def _common(self) -> tuple[str, ...]:
        most = "-ferror-limit=50" if self.compiler.is_clang else "-fmax-errors=50"
        return (
            str(self.compiler.path),
            "-std=c++17",
            "-fPIC",
            "-pipe",
            "-fdiagnostics-color=never",
            "-ffile-prefix-map=/work/=",
            f"-ffile-prefix-map={_TORCH}=torch",
            f"-ffile-prefix-map={_PYTHON}=python",
            "-ftemplate-depth=512",
            most,
        )


def _with_headers(path: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """A source and every header of the snapshot; other sources stay out, so the cache key is honest."""
    chosen = {name: text for name, text in files.items() if PurePosixPath(name).suffix in _HEADERS}
    return {**chosen, path: files[path]}
