"""`bench`: what a person waits for, measured on this host, written into docs/benchmarks.md."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launch import demo, seed
from launch.console import LaunchError, say
from launch.listener import Listener, signed_in_cookie
from launch.narration import ratio_text
from launch.own_site import OwnSite, own_site
from launch.places import REPOSITORY, VENV_PYTHON

PAGE = REPOSITORY / "docs" / "benchmarks.md"
PAIR = REPOSITORY / "launch" / "pair"
REPEATS, REPEATS_LIMIT_S = 20, 1200.0
BEGIN = "<!-- make bench: begin -->"
END = "<!-- make bench: end -->"


@dataclass
class Heard:
    """What one session's socket brought."""

    delays_ms: list[float] = field(default_factory=list)
    """From an event's own time stamp to its arrival here."""
    judge_ms: dict[str, list[float]] = field(default_factory=dict)
    """Per tool of the agent, what one call took."""


@dataclass(frozen=True)
class Row:
    """One example."""

    name: str
    first_verdict_s: float | None
    session_s: float
    speedup: str
    heard: Heard


def run(environ: Mapping[str, str]) -> int:
    """Measure every example in a site of its own, then write the tables."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as home:
        started = time.monotonic()
        with own_site(Path(home), environ) as site:
            start_s = time.monotonic() - started
            cookie = signed_in_cookie(site.entry)
            for name in seed.example_names():
                say(f"examples/{name}")
                rows.append(_measure(site, cookie, name))
    say("launch/pair, judged again and again")
    text = f"{_tables(rows, start_s)}\n{_repeatability(environ)}"
    _write(text)
    say(f"\n{text}\nWritten to {PAGE.relative_to(REPOSITORY)}")
    return 0


def _repeatability(environ: Mapping[str, str]) -> str:
    """Rows on how well the judge repeats itself on one pair, each verdict from the start."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as home:
        done = subprocess.run(
            [
                *(str(VENV_PYTHON), "-m", "workers", "repeat", str(PAIR)),
                *("--times", str(REPEATS), "--json"),
            ],
            cwd=REPOSITORY,
            env={**environ, "WARPSMITH_HOME": home},
            stdout=subprocess.PIPE,
            timeout=REPEATS_LIMIT_S,
            check=False,
        )
    if done.returncode:
        return "| the same pair, judged again and again | none was measured | | 0 |"
    found = json.loads(done.stdout)
    speedups = found["speedups"]
    variation = statistics.stdev(speedups) / statistics.mean(speedups) if speedups[1:] else 0.0
    return "\n".join(
        [
            f"| coefficient of variation of the speed-up of one pair ({found['kernel_ms']:.1f} ms a call), % "
            f"| {100 * variation:.1f} | | {len(speedups)} of {found['judged']} |",
            f"| one verdict on it, ms | {1e3 * found['seconds']:.0f} | | {found['judged']} |",
        ]
    )


def _measure(site: OwnSite, cookie: str, name: str) -> Row:
    heard = Heard()
    started = time.monotonic()
    listening: list[threading.Thread] = []

    def listen(session: str) -> None:
        thread = threading.Thread(target=_listen, args=(site, cookie, session, heard), daemon=True)
        thread.start()
        listening.append(thread)

    done = demo.optimise(site.client, seed.example_files(name), on_session=listen)
    for thread in listening:
        thread.join(timeout=30)
    verdict = site.client.get(f"evaluations/{done.evaluation}")
    inner = verdict.get("verdict") or verdict
    speedup = ratio_text(inner["timing"]["speedup_eager"])
    return Row(name, done.first_verdict_s, time.monotonic() - started, speedup, heard)


def _listen(site: OwnSite, cookie: str, session: str, heard: Heard) -> None:
    """Hear a session from its first event to its end."""
    listener = Listener(site.url, f"/ws/streams/{session}/?after=0", cookie)
    with contextlib.closing(listener):
        for frame in listener.frames():
            arrived = datetime.now(UTC)
            for event in frame.get("events", []):
                _note(event, arrived, heard)
                if event["kind"] == "session.state" and event["body"]["state"] in (
                    "finished",
                    "failed",
                    "stopped",
                    "crashed",
                ):
                    return


def _note(event: dict[str, Any], arrived: datetime, heard: Heard) -> None:
    delay = arrived - datetime.fromisoformat(event["at"])
    heard.delays_ms.append(1e3 * delay.total_seconds())
    if event["kind"] == "tool.finished" and event["body"]["tool"] in (
        "compile",
        "verify",
        "profile",
    ):
        spent = float(event["body"]["duration_ms"])
        heard.judge_ms.setdefault(event["body"]["tool"], []).append(spent)


def _tables(rows: list[Row], start_s: float) -> str:
    if not rows:
        raise LaunchError("There are no examples to measure.")
    delays = sorted(delay for row in rows for delay in row.heard.delays_ms)
    lines = [
        f"Measured on {datetime.now(UTC):%Y-%m-%d} by `make bench` on {_machine()}.",
        "",
        "| example | upload to first verdict, s | whole session, s | best against eager |",
        "|---|---:|---:|---|",
    ]
    for row in rows:
        first = "none" if row.first_verdict_s is None else f"{row.first_verdict_s:.1f}"
        lines.append(f"| {row.name} | {first} | {row.session_s:.1f} | {row.speedup} |")
    lines += ["", "| what | median | 95th percentile | count |", "|---|---:|---:|---:|"]
    lines.append(_line("from an event to a page's socket, ms", delays))
    for tool in ("compile", "verify", "profile"):
        spent = sorted(ms for row in rows for ms in row.heard.judge_ms.get(tool, []))
        if spent:
            lines.append(_line(f"`{tool}` as the agent waits for it, ms", spent))
    lines.append(f"| start of the site until it answers, s | {start_s:.1f} | | 1 |")
    return "\n".join(lines)


def _line(what: str, values: list[float]) -> str:
    if not values:
        return f"| {what} | none | none | 0 |"
    high = values[min(len(values) - 1, int(0.95 * len(values)))]
    return f"| {what} | {statistics.median(values):.0f} | {high:.0f} | {len(values)} |"


def _machine() -> str:
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end"


def _write(tables: str) -> None:
    """Replace what an earlier run wrote; the rest of the page stays."""
    text = PAGE.read_text() if PAGE.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    if BEGIN not in text or END not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(f"{head}{BEGIN}\n{tables}\n{END}{tail}")
