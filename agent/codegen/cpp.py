"""Writes one kernel as C++."""

from __future__ import annotations

from dataclasses import dataclass

from agent.codegen.ir import Arg, Const, Ref, Step
from agent.codegen.operations import C_TYPES, MEMORY_TYPES, expression, literal
from agent.codegen.passes import Pass, find_passes
from agent.codegen.plan import Kernel
from agent.codegen.sizes import Sizes
from agent.codegen.variant import Variant

STREAM_CHUNK = 1024

Key = tuple[str, int, tuple[int, ...]]


@dataclass(frozen=True)
class Names:
    """How a launcher's operands are called in C."""

    memory: dict[str, str]
    """Leaf or step -> argument name."""
    buffers: dict[str, str]
    """Kept element step -> name of its row buffer."""


class KernelWriter:
    """Writes the body of a launcher. `dtypes` knows every leaf and step by name."""

    def __init__(
        self,
        kernel: Kernel,
        names: Names,
        sizes: Sizes,
        dtypes: dict[str, str],
        variant: Variant,
        threads: int,
    ) -> None:
        self.kernel, self.names, self.sizes, self.dtypes = kernel, names, sizes, dtypes
        self.variant, self.threads = variant, threads
        self.passes, self.tail = find_passes(kernel, variant.keep)
        self.depth = kernel.row_loops
        self.exact = _exact_sums(kernel)
        self.operands: dict[Key, str] = {}
        self.lines: list[str] = []
        self.indent = 1

    def body(self) -> list[str]:
        """The lines between the launcher's braces."""
        for number, extent in enumerate(self.kernel.loops):
            self._line(f"const int64_t n{number} = {self.sizes.loop(number, extent)};")
        self._collect_operands()
        if self.depth and self.threads > 1:
            collapse = f" collapse({self.depth})" if self.depth > 1 else ""
            self._line(f"#pragma omp parallel for num_threads({self.threads}){collapse}")
        for number in range(self.depth):
            self._open(f"for (int64_t i{number} = 0; i{number} < n{number}; ++i{number}) {{")
        self._row()
        for _ in range(self.depth):
            self._close()
        if self.variant.stream:
            self._line("ws::stream_fence();")
        return self.lines

    # A row: pointers, then passes, with the row steps in between.

    def _collect_operands(self) -> None:
        own = self.kernel.names
        for step in self.kernel.steps:
            for arg in step.args:
                if isinstance(arg, Ref) and arg.name not in own:
                    key = self._key(arg, step)
                    self.operands.setdefault(key, f"{len(self.operands)}")

    def _key(self, ref: Ref, step: Step) -> Key:
        return ref.name, ref.offset, self.kernel.operand(ref, step)

    def _row(self) -> None:
        for key, number in self.operands.items():
            self._point(key, number)
        for name in self.kernel.stored:
            self._point_result(name)
        for name, buffer in self.names.buffers.items():
            kind = C_TYPES[self.dtypes[name]]
            place = f"{buffer}"
            if self.threads > 1 and self.depth:
                place += f" + omp_get_thread_num() * {self._row_length()}"
            self._line(f"{kind} *b_{name} = {place};")
        for walk in self.passes:
            self._row_steps(walk.rows)
            self._pass(walk)
        self._row_steps(self.tail)

    def _row_length(self) -> str:
        return " * ".join(f"n{i}" for i in range(self.depth, len(self.kernel.loops)))

    def _point(self, key: Key, number: str) -> None:
        name, offset, strides = key
        kind = MEMORY_TYPES[self.dtypes[name]]
        terms = [f"{offset}"] if offset else []
        terms += [
            self._term(strides, loop, f"i{loop}") for loop in range(self.depth) if strides[loop]
        ]
        memory = self.names.memory[name]
        if any(strides[self.depth :]):
            self._line(f"const {kind} *p{number} = {' + '.join([memory, *terms])};")
        else:
            value = f"{memory}[{' + '.join(terms) or '0'}]"
            self._line(
                f"const {C_TYPES[self.dtypes[name]]} s{number} = {self._loaded(name, value)};"
            )

    def _point_result(self, name: str) -> None:
        kind = MEMORY_TYPES[self.dtypes[name]]
        row = name in self.kernel.rows
        terms = []
        for loop in range(self.depth):
            inner = range(loop + 1, self.depth if row else len(self.kernel.loops))
            terms.append(" * ".join([f"i{loop}", *(f"n{i}" for i in inner)]))
        self._line(f"{kind} *o_{name} = {' + '.join([self.names.memory[name], *terms])};")

    def _term(self, strides: tuple[int, ...], loop: int, index: str) -> str:
        """Offset of one loop: sizes by name where the stride is that of a tensor without gaps."""
        inner = [i for i in range(loop + 1, len(strides)) if strides[i]]
        product = 1
        for i in inner:
            product *= self.kernel.loops[i]
        if strides[loop] == product:
            return " * ".join([index, *(f"n{i}" for i in inner)])
        return f"{index} * {strides[loop]}"

    def _row_steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self._compute(step)
            self._store_row(step)

    def _store_row(self, step: Step) -> None:
        if step.name in self.kernel.stored:
            self._line(f"*o_{step.name} = {step.name};")

    # A pass: loops over the row, reductions around them.

    def _pass(self, walk: Pass) -> None:
        columns = list(range(self.depth, len(self.kernel.loops)))
        blocks = len(columns) > 1 or self._chunked(walk)
        for step in walk.reductions:
            self._begin_reduction(step, blocks)
        for loop in columns[:-1]:
            self._open(f"for (int64_t i{loop} = 0; i{loop} < n{loop}; ++i{loop}) {{")
        self._outer_columns(walk, columns)
        self._inner(walk, columns[-1], blocks)
        for _ in columns[:-1]:
            self._close()
        for step in walk.reductions:
            self._end_reduction(step)

    def _chunked(self, walk: Pass) -> bool:
        extent = self.kernel.loops[-1]
        if walk.stored and self.variant.stream:
            return True
        if self.depth == 0 and self.threads > 1 and not walk.reductions:
            return True
        return bool(walk.reductions) and extent > self.variant.chunk

    def _begin_reduction(self, step: Step, blocks: bool) -> None:
        kind = C_TYPES[step.dtype]
        if step.op == "reduce_sum":
            wide = "double" if blocks or step.name in self.exact else kind
            self._line(f"{wide} a_{step.name} = 0;")
            return
        edge = float("-inf") if step.op == "reduce_max" else float("inf")
        self._line(f"{kind} a_{step.name} = {literal(edge, step.dtype)};")
        self._line(f"int32_t f_{step.name} = 0;  // set by NaN, which no comparison finds")

    def _end_reduction(self, step: Step) -> None:
        kind = C_TYPES[step.dtype]
        value = f"static_cast<{kind}>(a_{step.name})"
        if step.op != "reduce_sum":
            nan = literal(float("nan"), step.dtype)
            value = f"f_{step.name} ? {nan} : a_{step.name}"
        self._line(f"const {kind} {step.name} = {value};")
        self._store_row(step)

    def _outer_columns(self, walk: Pass, columns: list[int]) -> None:
        """Pointers that move with the outer loops over a row."""
        if len(columns) == 1:
            return
        for key, number in self._used(walk).items():
            name, _, strides = key
            terms = [
                self._term(strides, loop, f"i{loop}") for loop in columns[:-1] if strides[loop]
            ]
            place = " + ".join([f"p{number}", *terms])
            if strides[columns[-1]]:
                self._line(f"const {MEMORY_TYPES[self.dtypes[name]]} *q{number} = {place};")
            else:
                value = self._loaded(name, f"*({place})")
                self._line(f"const {C_TYPES[self.dtypes[name]]} u{number} = {value};")
        for name in walk.stored:
            terms = []
            for loop in columns[:-1]:
                inner = range(loop + 1, len(self.kernel.loops))
                terms.append(" * ".join([f"i{loop}", *(f"n{i}" for i in inner)]))
            kind = MEMORY_TYPES[self.dtypes[name]]
            self._line(f"{kind} *w_{name} = {' + '.join([f'o_{name}', *terms])};")

    def _used(self, walk: Pass) -> dict[Key, str]:
        """Operands of a pass that move along the row."""
        own = self.kernel.names
        found: dict[Key, str] = {}
        for step in (*walk.steps, *walk.reductions):
            for arg in step.args:
                if isinstance(arg, Ref) and arg.name not in own:
                    key = self._key(arg, step)
                    if any(key[2][self.depth :]):
                        found[key] = self.operands[key]
        return found

    def _inner(self, walk: Pass, loop: int, blocks: bool) -> None:
        streamed = walk.stored if self.variant.stream else ()
        chunked = self._chunked(walk)
        first, end = "0", f"n{loop}"
        if chunked:
            size = STREAM_CHUNK if streamed else self.variant.chunk
            if self.depth == 0 and self.threads > 1 and not walk.reductions:
                self._line(f"#pragma omp parallel for num_threads({self.threads})")
            self._open(f"for (int64_t c = 0; c < n{loop}; c += {size}) {{")
            self._line(f"const int64_t e = n{loop} - c < {size} ? n{loop} : c + {size};")
            first, end = "c", "e"
            for name in streamed:
                self._line(f"alignas(64) {MEMORY_TYPES[self.dtypes[name]]} t_{name}[{size}];")
        self._simd_loop(walk, first, end, blocks, streamed)
        for name in streamed:
            target = self._result(name)
            self._line(f"ws::stream_out({target} + c, t_{name}, e - c);")
        if chunked:
            self._close()

    def _result(self, name: str) -> str:
        outer = len(self.kernel.loops) - self.depth > 1
        return f"w_{name}" if outer else f"o_{name}"

    def _simd_loop(
        self, walk: Pass, first: str, end: str, blocks: bool, streamed: tuple[str, ...]
    ) -> None:
        clauses = []
        for step in walk.reductions:
            clauses += self._partial(step, blocks)
        self._line(" ".join(["#pragma omp simd", *clauses]))
        self._open(f"for (int64_t j = {first}; j < {end}; ++j) {{")
        for name in walk.loaded:
            self._line(f"const {C_TYPES[self.dtypes[name]]} {name} = b_{name}[j];")
        for step in walk.steps:
            self._compute(step)
            if step.name in walk.kept:
                self._line(f"b_{step.name}[j] = {step.name};")
        for step in walk.reductions:
            self._accumulate(step, blocks)
        for name in walk.stored:
            place = f"t_{name}[j - c]" if name in streamed else f"{self._result(name)}[j]"
            self._line(f"{place} = {name};")
        self._close()
        if blocks:
            for step in walk.reductions:
                self._fold(step)

    def _partial(self, step: Step, blocks: bool) -> list[str]:
        """Accumulators of one block, and the clauses that let each vector lane have its own."""
        prefix = "r" if blocks else "a"
        if step.op == "reduce_sum":
            if blocks:
                kind = "double" if step.name in self.exact else C_TYPES[step.dtype]
                self._line(f"{kind} r_{step.name} = 0;")
            return [f"reduction(+ : {prefix}_{step.name})"]
        if blocks:
            self._line(f"{C_TYPES[step.dtype]} r_{step.name} = a_{step.name};")
            self._line(f"int32_t g_{step.name} = 0;")
        word = "max" if step.op == "reduce_max" else "min"
        flag = f"{'g' if blocks else 'f'}_{step.name}"
        return [f"reduction({word} : {prefix}_{step.name})", f"reduction(| : {flag})"]

    def _accumulate(self, step: Step, blocks: bool) -> None:
        total = f"{'r' if blocks else 'a'}_{step.name}"
        value = self._argument(step.args[0], step, step.dtype)
        if step.op == "reduce_sum":
            self._line(f"{total} += {value};")
            return
        sign = ">" if step.op == "reduce_max" else "<"
        self._line(f"{total} = {value} {sign} {total} ? {value} : {total};")
        self._line(f"{'g' if blocks else 'f'}_{step.name} |= {value} != {value};")

    def _fold(self, step: Step) -> None:
        if step.op == "reduce_sum":
            self._line(f"a_{step.name} += r_{step.name};")
            return
        self._line(f"a_{step.name} = r_{step.name};")
        self._line(f"f_{step.name} |= g_{step.name};")

    # Single steps.

    def _compute(self, step: Step) -> None:
        args = [
            self._argument(arg, step, "bool" if step.op == "where" and i == 0 else step.compute)
            for i, arg in enumerate(step.args)
        ]
        text = expression(step.op, args, step.compute)
        produced = "bool" if step.op in _TRUTHS else step.compute
        if produced != step.dtype:
            text = _cast(text, produced, step.dtype)
        self._line(f"const {C_TYPES[step.dtype]} {step.name} = {text};")

    def _argument(self, arg: Arg, step: Step, wanted: str) -> str:
        if isinstance(arg, Const):
            return literal(arg.value, wanted)
        dtype = self.dtypes[arg.name]
        text = arg.name if arg.name in self.kernel.names else self._read(self._key(arg, step))
        return text if dtype == wanted else _cast(text, dtype, wanted)

    def _read(self, key: Key) -> str:
        name, _, strides = key
        number = self.operands[key]
        if not any(strides[self.depth :]):
            return f"s{number}"
        outer = len(self.kernel.loops) - self.depth > 1
        if not strides[-1]:
            return f"u{number}"
        index = "j" if strides[-1] == 1 else f"j * {strides[-1]}"
        return self._loaded(name, f"{'q' if outer else 'p'}{number}[{index}]")

    def _loaded(self, name: str, text: str) -> str:
        return f"({text} != 0)" if self.dtypes[name] == "bool" else text

    def _line(self, text: str) -> None:
        pad = "" if text.startswith("#") else "  " * self.indent
        self.lines.append(pad + text)

    def _open(self, text: str) -> None:
        self._line(text)
        self.indent += 1

    def _close(self) -> None:
        self.indent -= 1
        self._line("}")


_TRUTHS = frozenset(
    [
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "isnan",
        "isinf",
    ]
)


def _cast(text: str, have: str, want: str) -> str:
    if want == "bool":
        return f"(({text}) != {literal(0, have)})" if have != "bool" else text
    return f"static_cast<{C_TYPES[want]}>({text})"


def _exact_sums(kernel: Kernel) -> set[str]:
    """Sums that leave the kernel as results, directly or through row steps.

    Their terms may cancel, so they are added up in double; sums that only scale or shift the elements of
    their row need no more than float.
    """
    leaving = set(kernel.stored)
    for step in reversed(kernel.steps):
        if step.name in kernel.rows and step.name in leaving:
            leaving |= {arg.name for arg in step.args if isinstance(arg, Ref)}
    return {step.name for step in kernel.steps if step.op == "reduce_sum" and step.name in leaving}
