"""Checks of an uploaded problem, made without running or importing a line of it.

Covered: names, size, encoding, syntax, the three names that the contract asks for, the spec. Not
covered: whether it runs. That is the judge's question, asked in a sandbox after the upload.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webapp.common.errors import UserError
from workers.protocol.codec import ProtocolError
from workers.protocol.problem import ProblemSpec, parse_problem_toml
from workers.workspace.layout import MODEL, PROBLEM_FILES, PROBLEM_TOML

MAX_PROBLEM_FILE_BYTES = 256 << 10
MAX_TITLE_CHARS = 120

_FUNCTIONS = ("get_inputs", "get_init_inputs")


@dataclass(frozen=True)
class CheckedProblem:
    """An upload that may be stored."""

    files: dict[str, bytes]
    spec: ProblemSpec
    title: str


def check_upload(files: Mapping[str, bytes], title: str = "") -> CheckedProblem:
    """Check and normalise an upload; raises `UserError` with one sentence that says what to change."""
    unknown = sorted(set(files) - set(PROBLEM_FILES))
    if unknown:
        raise UserError(
            f"{unknown[0][:80]} cannot be uploaded: a problem is {MODEL} and, if you like, {PROBLEM_TOML}.",
            "files",
        )
    if not files.get(MODEL, b"").strip():
        raise UserError(f"{MODEL} is missing: paste or choose the file with your model.", MODEL)
    texts = {path: _read_text(path, content) for path, content in files.items()}
    tree = _parse(texts[MODEL].encode())
    _check_contract(tree)
    try:
        spec = parse_problem_toml(texts.get(PROBLEM_TOML, ""))
    except ProtocolError as error:
        raise UserError(_sentence(str(error)), PROBLEM_TOML) from error
    chosen = _one_line(title) or _one_line(spec.title) or _title_in(tree)
    kept = {path: text.encode() for path, text in texts.items() if text.strip()}
    return CheckedProblem(kept, spec, chosen[:MAX_TITLE_CHARS])


def _read_text(path: str, content: bytes) -> str:
    if len(content) > MAX_PROBLEM_FILE_BYTES:
        raise UserError(
            f"{path} has {len(content):,} bytes; {MAX_PROBLEM_FILE_BYTES:,} are allowed: "
            "build large constants in the code instead of writing them down.",
            path,
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(
            f"{path} is not UTF-8 text (line {line}): save it as UTF-8.", path
        ) from error
    if "\0" in text:
        raise UserError(
            f"{path} holds a NUL character: upload the source text, not a binary file.", path
        )
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") or not text else text + "\n"


def _parse(source: bytes) -> ast.Module:
    """Bytes are parsed, as Python does when it imports the file: a comment may name another encoding."""
    try:
        return ast.parse(source, filename=MODEL)
    except SyntaxError as error:
        message = error.msg.splitlines()[0][:160]
        raise UserError(
            f"{MODEL} line {error.lineno or 1}: {message}: correct the syntax.", MODEL
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{MODEL} is nested too deeply to be read: simplify it.", MODEL) from error


def _check_contract(tree: ast.Module) -> None:
    names = _bound_names(tree.body)
    if "Model" not in names:
        raise UserError(
            f"{MODEL} has no class Model: name your torch.nn.Module `Model`, at the top level.",
            MODEL,
        )
    model = _model_class(tree)
    if model and "forward" not in _bound_names(model.body) and not _may_inherit(model):
        raise UserError(f"{MODEL}: class Model has no method forward: add it.", MODEL)
    for name in _FUNCTIONS:
        if name not in names:
            purpose = (
                "forward's arguments" if name == "get_inputs" else "the arguments of Model(...)"
            )
            raise UserError(
                f"{MODEL} has no function {name}(): add one at the top level that returns {purpose} in a list.",
                MODEL,
            )


def _bound_names(body: Sequence[ast.stmt]) -> set[str]:
    """Names that statements bind in their own scope, also inside `if`, `try`, `with` and loops.

    Not looked into: functions and classes, which are scopes of their own.
    """
    names: set[str] = set()
    left: list[ast.AST] = [*body]
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif not isinstance(node, (ast.AsyncFunctionDef, ast.Lambda, ast.comprehension)):
            left += ast.iter_child_nodes(node)
    return names


def _model_class(tree: ast.Module) -> ast.ClassDef | None:
    """The class at the top level; None where the name is bound in another way."""
    found = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"]
    return found[-1] if found else None


def _may_inherit(model: ast.ClassDef) -> bool:
    """Whether the class derives from something else than `nn.Module`, which may bring a forward along."""
    names = {base.attr if isinstance(base, ast.Attribute) else base for base in model.bases}
    plain = {base.id if isinstance(base, ast.Name) else base for base in names}
    return bool(plain - {"Module", "object"})


def _title_in(tree: ast.Module) -> str:
    """The first line of the module's or the model's docstring."""
    model = _model_class(tree)
    docstring = ast.get_docstring(tree) or (ast.get_docstring(model) if model else "") or ""
    first = _one_line(docstring.strip().split("\n", 1)[0]).rstrip(".")
    return first or "Untitled model"


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", "".join(c for c in text if c.isprintable() or c.isspace())).strip()


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
