"""The passes that a kernel makes over a row, and what it keeps between them."""

from __future__ import annotations

from dataclasses import dataclass

from agent.codegen.ir import Ref, Step
from agent.codegen.operations import COSTLY
from agent.codegen.plan import Kernel
from agent.codegen.variant import Keep

MAX_KEPT_BYTES = 256 * 1024


@dataclass(frozen=True)
class Pass:
    """One walk through a row."""

    steps: tuple[Step, ...]
    """Element steps to compute, in order."""
    loaded: tuple[str, ...]
    """Element steps whose results come from a row buffer."""
    reductions: tuple[Step, ...]
    stored: tuple[str, ...]
    """Element steps whose results go to memory."""
    kept: tuple[str, ...]
    """Element steps whose results go to a row buffer."""
    rows: tuple[Step, ...]
    """Row steps, without reductions, that can run before this pass."""


def find_passes(kernel: Kernel, keep: Keep) -> tuple[list[Pass], tuple[Step, ...]]:
    """The passes of a kernel, and the row steps behind the last one."""
    level = _levels(kernel)
    by_name = {step.name: step for step in kernel.steps}
    element = [s for s in kernel.steps if s.name not in kernel.rows]
    turns = sorted({level[s.name] - 1 for s in kernel.steps if s.reduces})
    stores = {s.name: level[s.name] for s in element if s.name in kernel.stored}
    last = max(stores.values(), default=-1)
    if last > (turns[-1] if turns else -1):
        turns.append(last)
    sinks: dict[int, tuple[list[Step], list[str]]] = {turn: ([], []) for turn in turns}
    for step in kernel.steps:
        if step.reduces:
            sinks[level[step.name] - 1][0].append(step)
        elif step.name in stores:
            sinks[min(t for t in turns if t >= stores[step.name])][1].append(step.name)
    need = {t: _closure(by_name, kernel, reds, outs, set()) for t, (reds, outs) in sinks.items()}
    kept = _kept(kernel, by_name, sinks, need, keep)
    passes = []
    have: set[str] = set()
    done = -1
    for turn in turns:
        reds, outs = sinks[turn]
        loaded = kept & have
        names = _closure(by_name, kernel, reds, outs, loaded)
        fresh = (names & kept) - have
        have |= fresh
        passes.append(
            Pass(
                steps=tuple(s for s in element if s.name in names and s.name not in loaded),
                loaded=tuple(s.name for s in element if s.name in names and s.name in loaded),
                reductions=tuple(reds),
                stored=tuple(outs),
                kept=tuple(s.name for s in element if s.name in fresh),
                rows=_row_steps(kernel, level, done, turn),
            )
        )
        done = turn
    return passes, _row_steps(kernel, level, done, 1 << 30)


def _row_steps(kernel: Kernel, level: dict[str, int], done: int, turn: int) -> tuple[Step, ...]:
    return tuple(
        s
        for s in kernel.steps
        if s.name in kernel.rows and not s.reduces and done < level[s.name] <= turn
    )


def _levels(kernel: Kernel) -> dict[str, int]:
    """How many reductions lie behind each step: a reduction is one above its argument."""
    level: dict[str, int] = {}
    for step in kernel.steps:
        before = [level[a.name] for a in step.args if isinstance(a, Ref) and a.name in level]
        level[step.name] = max(before, default=0) + (1 if step.reduces else 0)
    return level


def _closure(
    by_name: dict[str, Step],
    kernel: Kernel,
    reductions: list[Step],
    outputs: list[str],
    at_hand: set[str],
) -> set[str]:
    """Element steps needed for these sinks; what is at hand needs nothing further."""
    todo = [a.name for r in reductions for a in r.args if isinstance(a, Ref)] + outputs
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name in found or name not in by_name or name in kernel.rows:
            continue
        found.add(name)
        if name not in at_hand:
            todo += [a.name for a in by_name[name].args if isinstance(a, Ref)]
    return found


def _kept(
    kernel: Kernel,
    by_name: dict[str, Step],
    sinks: dict[int, tuple[list[Step], list[str]]],
    need: dict[int, set[str]],
    keep: Keep,
) -> set[str]:
    """What goes to row buffers: shared by two passes, and used by something that is not shared itself."""
    one_loop = len(kernel.loops) - kernel.row_loops == 1
    if keep is Keep.NOTHING or not one_loop or kernel.extent * 8 > MAX_KEPT_BYTES:
        return set()
    turns = sorted(need)
    shared = {
        name
        for name in by_name
        if sum(name in need[turn] for turn in turns) > 1
        and (keep is Keep.ALL or by_name[name].op in COSTLY)
    }
    chosen: set[str] = set()
    for turn in turns[1:]:
        reds, outs = sinks[turn]
        direct = {a.name for r in reds for a in r.args if isinstance(a, Ref)} | set(outs)
        for name in need[turn] - shared:
            direct |= {a.name for a in by_name[name].args if isinstance(a, Ref)}
        chosen |= direct & shared & need[turn]
    return chosen
