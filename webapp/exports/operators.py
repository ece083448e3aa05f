"""`kernel_ops.py` of an exported package, written from the op manifest.

It loads the library beside it and gives each op a Python name with a shape-only twin, by which
torch.compile and torch.export can trace through it.
"""

from __future__ import annotations

import keyword

from workers.protocol.ops import InputKind, Op, OpManifest, expression_names, parse_expression

_HEAD = '''"""The operators of this package; generated. They are also at torch.ops.{namespace}."""

from pathlib import Path

import torch

_found = sorted(Path(__file__).parent.glob("_C*.so"))
if not _found:
    raise ImportError("The library of {package} is missing: install the project with pip.")
torch.ops.load_library(str(_found[0]))
_ops = torch.ops.{namespace}
'''


def kernel_ops_module(manifest: OpManifest, namespace: str, package: str) -> str:
    """The whole module."""
    parts = [_HEAD.format(namespace=namespace, package=package)]
    parts += [_operator(op, namespace) for op in manifest.ops]
    names = ", ".join(f'"{op.name}"' for op in manifest.ops)
    parts.append(f"__all__ = [{names}]\n")
    return "\n".join(parts)


def _operator(op: Op, namespace: str) -> str:
    arguments = ", ".join(_safe(item.name) for item in op.inputs)
    first = next((_safe(item.name) for item in op.inputs if item.kind is InputKind.TENSOR), None)
    outputs = []
    for output in op.outputs:
        shape = "".join(f"{_python(size, op)}, " for size in output.shape)
        maker = "torch.empty(" if first is None else f"{first}.new_empty("
        outputs.append(f"{maker}({shape}), dtype=torch.{output.dtype})")
    result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return (
        f"{op.name} = _ops.{op.name}\n\n\n"
        f'@torch.library.register_fake("{namespace}::{op.name}")\n'
        f"def _{op.name}_shape({arguments}):\n"
        f"    return {result}\n\n"
    )


def _safe(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _python(expression: str, op: Op) -> str:
    """An expression of the manifest in Python: `x.0` becomes `x.shape[0]`, `/` divides whole numbers."""
    words = []
    for token in parse_expression(expression, expression_names(op)):
        name, dot, part = token.partition(".")
        if token == "/":  # noqa: S105 - a word of the expression
            words.append("//")
        elif not dot:
            words.append(_safe(token))
        else:
            name = _safe(name)
            words.append(f"{name}.numel()" if part == "numel" else f"{name}.shape[{part}]")
    return " ".join(words)
