"""From a plan to files: kernels/*.cpp, kernels/ops.json, kernels/ws_math.h and model_new.py."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from agent.codegen.cpp import KernelWriter, Names
from agent.codegen.ir import Graph, Ref, Step
from agent.codegen.modelfile import KernelCall, model_file
from agent.codegen.operations import C_TYPES, MEMORY_TYPES
from agent.codegen.passes import find_passes
from agent.codegen.plan import Kernel, plan
from agent.codegen.sizes import Sizes, find_sizes
from agent.codegen.variant import Variant
from workers.protocol.codec import to_data
from workers.protocol.inspection import Inspection
from workers.protocol.ops import (
    MANIFEST_PATH,
    ElementType,
    InputKind,
    Op,
    OpInput,
    OpManifest,
    OpOutput,
    OpScratch,
    parse_manifest,
)

_TEMPLATES = Path(__file__).parent / "templates"
MATH_HEADER = "ws_math.h"
STREAM_HEADER = "ws_stream.h"

_TITLE_CHARS = 40

# Names that the writer uses itself, and words of C++ that could be names of arguments.
_TAKEN = re.compile(r"[jce]|[inpsqu]\d+|[abfgortw]_.*|v\d+.*|kept_.*")
_WORDS = frozenset(
    [
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "continue",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "operator",
        "private",
        "protected",
        "public",
        "register",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "true",
        "try",
        "typedef",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "while",
        "and",
        "or",
        "not",
        "xor",
        "stream",
        "ws",
        "int32_t",
        "int64_t",
        "uint8_t",
    ]
)


@dataclass(frozen=True)
class Written:
    """One kernel's files and how it is called."""

    path: str
    source: str
    op: Op
    call: KernelCall


def write_files(
    graph: Graph, inspection: Inspection, model_source: str, variant: Variant, threads: int
) -> dict[str, str]:
    """All files of a candidate; raises `CannotGenerate`."""
    kernels = plan(graph)
    known = {leaf.ref.name: leaf.ref for leaf in graph.leaves.values()}
    known |= {step.name: step.ref() for kernel in kernels for step in kernel.steps}
    friendly = _friendly(graph, kernels)
    titles = kernel_titles(kernels)
    written = [
        write_kernel(kernel, title, known, friendly, variant, threads)
        for kernel, title in zip(kernels, titles, strict=True)
    ]
    files = {item.path: item.source for item in written}
    for header in _headers(variant):
        files[f"kernels/{header}"] = (_TEMPLATES / header).read_text()
    files[MANIFEST_PATH] = _manifest(tuple(item.op for item in written))
    calls = [item.call for item in written]
    files["model_new.py"] = model_file(graph, inspection, model_source, calls)
    return files


def write_kernel(
    kernel: Kernel,
    title: str,
    known: dict[str, Ref],
    friendly: dict[str, str],
    variant: Variant,
    threads: int,
) -> Written:
    """The source, manifest entry and call of one kernel."""
    inputs = kernel.memory
    memory = {name: friendly[name] for name in (*inputs, *kernel.stored)}
    sizes = find_sizes(kernel, {friendly[name]: known[name] for name in inputs})
    buffers = _buffers(kernel, variant)
    dtypes = {name: known[name].dtype for name in {*inputs, *kernel.names}}
    writer = KernelWriter(kernel, Names(memory, buffers), sizes, dtypes, variant, threads)
    launcher = f"ws_{title}"
    op = Op(
        name=title,
        launcher=launcher,
        inputs=tuple(_input(friendly[name], known[name]) for name in inputs),
        outputs=tuple(_output(kernel, step, friendly, sizes) for step in _stored(kernel)),
        scratch=tuple(
            OpScratch(buffer, sizes.row_bytes(kernel, ElementType(dtypes[name]).itemsize, threads))
            for name, buffer in buffers.items()
        ),
        arguments=(*memory.values(), *buffers.values(), *sizes.arguments()),
    )
    source = _source(kernel, op, writer.body(), known, memory, buffers, variant, threads)
    call = KernelCall(title, tuple(inputs), kernel.stored)
    return Written(f"kernels/{title}.cpp", source, op, call)


def kernel_titles(kernels: list[Kernel]) -> list[str]:
    """A telling name for each kernel: the graph's operators that it covers, in order."""
    titles: list[str] = []
    for number, kernel in enumerate(kernels):
        words = dict.fromkeys(step.target.split(".")[1].strip("_") for step in kernel.steps)
        title = ""
        for word in words:
            plain = re.sub(r"[^a-z0-9_]", "", word.lower())
            if len(title) + len(plain) <= _TITLE_CHARS:
                title = f"{title}_{plain}".strip("_")
        title = title or "kernel"
        titles.append(title if title not in titles else f"{title}_{number}")
    return titles


def _stored(kernel: Kernel) -> list[Step]:
    by_name = {step.name: step for step in kernel.steps}
    return [by_name[name] for name in kernel.stored]


def _buffers(kernel: Kernel, variant: Variant) -> dict[str, str]:
    passes, _ = find_passes(kernel, variant.keep)
    kept = [name for walk in passes for name in walk.kept]
    return {name: f"kept_{number}" for number, name in enumerate(kept)}


def _input(name: str, ref: Ref) -> OpInput:
    return OpInput(name, InputKind.TENSOR, ElementType(ref.dtype), len(ref.shape))


def _output(kernel: Kernel, step: Step, friendly: dict[str, str], sizes: Sizes) -> OpOutput:
    block = kernel.extent if step.name in kernel.rows else 1
    shape = sizes.shape_of(step.shape, block)
    return OpOutput(friendly[step.name], ElementType(step.dtype), shape)


def _source(
    kernel: Kernel,
    op: Op,
    body: list[str],
    known: dict[str, Ref],
    memory: dict[str, str],
    buffers: dict[str, str],
    variant: Variant,
    threads: int,
) -> str:
    parameters = []
    for name, argument in memory.items():
        const = "" if name in kernel.stored else "const "
        kind = MEMORY_TYPES[known[name].dtype]
        parameters.append(f"{const}{kind} *__restrict {argument}")
    parameters += [
        f"{C_TYPES[known[name].dtype]} *__restrict {buffer}" for name, buffer in buffers.items()
    ]
    sized = op.arguments[len(memory) + len(buffers) :]
    parameters += [f"int64_t {argument.replace('.', '_')}" for argument in sized]
    lines = [f"// {line}" for line in _story(kernel)]
    options = ["no-trapping-math", *(["unroll-loops"] if variant.unroll else [])]
    lines += [f"#pragma GCC optimize({', '.join(_quoted(options))})"]
    if variant.width:
        lines += ["#if defined(__AVX512F__)"]
        lines += [f'#pragma GCC target("prefer-vector-width={variant.width}")', "#endif"]
    if threads > 1:
        lines += ["#include <omp.h>", ""]
    lines += [*(f'#include "{header}"' for header in _headers(variant)), ""]
    joined = ",\n    ".join(parameters)
    lines += [f'extern "C" void {op.launcher}(\n    {joined}) {{', *body, "}", ""]
    return "\n".join(lines)


def _headers(variant: Variant) -> list[str]:
    return [MATH_HEADER, *([STREAM_HEADER] if variant.stream else [])]


def _quoted(items: list[str]) -> list[str]:
    return [f'"{item}"' for item in items]


def _story(kernel: Kernel) -> list[str]:
    """What a reader wants to know first: which lines of the model this kernel is."""
    lines = []
    for step in kernel.steps:
        place = f"{step.location}: " if step.location else ""
        lines.append(f"{place}{step.target}")
    told = list(dict.fromkeys(lines))
    row = f"Rows of {kernel.extent}, {kernel.total // kernel.extent} of them when written."
    loops = f"{kernel.total} elements when written."
    return [*told, row if kernel.extent > 1 else loops]


def _manifest(ops: tuple[Op, ...]) -> str:
    text = json.dumps(_without_empty(to_data(OpManifest(ops))), indent=1) + "\n"
    parse_manifest(text)
    return text


def _without_empty(data: object) -> object:
    """Leave out fields that only repeat a default: people read this file."""
    if isinstance(data, dict):
        return {k: _without_empty(v) for k, v in data.items() if v not in (None, [])}
    if isinstance(data, list):
        return [_without_empty(item) for item in data]
    return data


def _friendly(graph: Graph, kernels: list[Kernel]) -> dict[str, str]:
    """C and manifest names of leaves and results."""
    names: dict[str, str] = {}
    used: set[str] = set()

    def take(key: str, wish: str) -> None:
        name = re.sub(r"[^A-Za-z0-9_]", "_", wish)[:40]
        if not name[:1].isalpha() or _TAKEN.fullmatch(name) or name in _WORDS:
            name = f"in_{name}"
        base, number = name, 1
        while name in used:
            number += 1
            name = f"{base}_{number}"
        used.add(name)
        names[key] = name

    for leaf in graph.leaves.values():
        take(leaf.ref.name, leaf.source)
    returned = {ref.name for ref in graph.outputs}
    for kernel in kernels:
        for step in kernel.steps:
            if step.name in kernel.stored:
                take(step.name, "result" if step.name in returned else "between")
    return names
