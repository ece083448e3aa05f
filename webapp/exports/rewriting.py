"""`model_new.py` as a module of a package: its imports of workspace modules become relative.

In a workspace the kernels are imported as `kernel_ops` (or, as the paper's workspaces do, as
`cuda_extension`) and the reference as `model`. Everything else stays as it was written, byte by byte.
"""

from __future__ import annotations

import ast

RENAMED = {"kernel_ops": "kernel_ops", "cuda_extension": "kernel_ops", "model": "reference"}


class NotExportable(ValueError):
    """The code cannot leave as it is; the text says why and what to change."""


def as_package_module(source: str) -> str:
    """The source with its workspace imports made relative; raises `NotExportable`."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise NotExportable(f"model_new.py, line {error.lineno}: {error.msg}") from error
    lines = source.encode().splitlines(keepends=True)
    for node in sorted(_imports(tree), key=lambda found: found.lineno, reverse=True):
        replacement = _relative(node)
        if replacement is not None:
            _replace(lines, node, replacement)
    return b"".join(lines).decode()


def _imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


def _relative(node: ast.Import | ast.ImportFrom) -> str | None:
    """The statement to write instead, or None where it may stay."""
    if isinstance(node, ast.ImportFrom):
        if node.level or node.module not in RENAMED:
            return None
        return ast.unparse(ast.ImportFrom(RENAMED[node.module], node.names, 1))
    if not any(alias.name in RENAMED for alias in node.names):
        return None
    statements: list[ast.stmt] = []
    for alias in node.names:
        if alias.name not in RENAMED:
            statements.append(ast.Import([alias]))
            continue
        name = RENAMED[alias.name]
        bound = alias.asname or alias.name
        inner = ast.alias(name, None if bound == name else bound)
        statements.append(ast.ImportFrom(None, [inner], 1))
    return "; ".join(ast.unparse(statement) for statement in statements)


def _replace(lines: list[bytes], node: ast.stmt, text: str) -> None:
    """Put text in a statement's place; columns of `ast` count bytes of UTF-8."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    first, last = node.lineno - 1, node.end_lineno - 1
    head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    lines[first : last + 1] = [head + text.encode() + tail]
