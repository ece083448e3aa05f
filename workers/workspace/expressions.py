"""Integer expressions of the op manifest as C++."""

from __future__ import annotations

from collections.abc import Callable

from workers.protocol.codec import ProtocolError
from workers.protocol.ops import Op, expression_names, parse_expression

_LARGEST = 2**62


def to_cpp(text: str, op: Op, name_of: Callable[[str], str]) -> str:
    """Translate an expression; `name_of` gives the C++ for `x.0`, `x.numel` and int inputs.

    Division becomes a call of `floor_div`, because C++ rounds towards zero. Raises `ProtocolError`
    where the expression is not well formed or a literal does not fit in 64 bits.
    """
    tokens = parse_expression(text, expression_names(op))
    for token in tokens:
        if token.isdigit() and int(token) > _LARGEST:
            raise ProtocolError(f"op {op.name}: {token[:30]} in {text[:60]!r} is too large")
    return _Translator(tokens, name_of).whole()


class _Translator:
    """Recursive descent over tokens that are known to be well formed."""

    def __init__(self, tokens: tuple[str, ...], name_of: Callable[[str], str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._name_of = name_of

    def whole(self) -> str:
        return self._sum()

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _sum(self) -> str:
        text = self._product()
        while self._peek() in ("+", "-"):
            text = f"({text} {self._next()} {self._product()})"
        return text

    def _product(self) -> str:
        text = self._atom()
        while self._peek() in ("*", "/"):
            sign = self._next()
            other = self._atom()
            text = f"floor_div({text}, {other})" if sign == "/" else f"({text} * {other})"
        return text

    def _atom(self) -> str:
        word = self._next()
        if word == "(":
            text = self._sum()
            self._next()
            return text
        return f"INT64_C({int(word)})" if word.isdigit() else self._name_of(word)
