"""A session's events as lines for the terminal, one per stage."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any


@dataclass
class Narrator:
    """Tells a session. `started` is the upload's moment on the monotonic clock."""

    started: float
    first_verdict_s: float | None = None

    def tell(self, event: dict[str, Any]) -> list[str]:
        """The lines for one event; none for those that only a page shows."""
        body = event["body"]
        teller = getattr(self, "_" + str(event["kind"]).replace(".", "_"), None)
        if teller is None:
            return []
        line = teller(body)
        return [f"  {time.monotonic() - self.started:6.1f} s  {line}"] if line else []

    def _session_state(self, body: dict[str, Any]) -> str:
        reason = body.get("reason") or ""
        return f"session {body['state']}" + (f": {reason}" if reason else "")

    def _turn_started(self, body: dict[str, Any]) -> str:
        return f"turn {body['turn']}"

    def _message(self, body: dict[str, Any]) -> str:
        lines = str(body.get("text", "")).strip().splitlines()
        return f"  {body.get('role', '')}: {shortened(lines[0])}" if lines else ""

    def _tool_finished(self, body: dict[str, Any]) -> str:
        mark = "" if body.get("ok", True) else "refused or failed: "
        summary = shortened(str(body.get("summary", "")).replace("\n", " "))
        return f"  {body['tool']}: {mark}{summary} ({float(body.get('duration_ms') or 0):.0f} ms)"

    def _evaluation(self, body: dict[str, Any]) -> str:
        timed = body.get("speedup") is not None
        if body["status"] == "passed" and self.first_verdict_s is None and timed:
            self.first_verdict_s = time.monotonic() - self.started
        speed = ""
        if timed:
            speed = f", {body['speedup']:.2f}x eager ({body['low']:.2f} to {body['high']:.2f})"
        return f"  verdict {body['status']}{speed}"

    def _best(self, body: dict[str, Any]) -> str:
        return f"  best so far: turn {body['turn']}, {body['speedup']:.2f}x eager"

    def _baseline(self, body: dict[str, Any]) -> str:
        ratio = body.get("compile_over_eager")
        if ratio is None:
            return f"torch.compile: {body.get('status')}"
        return f"torch.compile gains {ratio:.2f}x over eager"


def ratio_text(ratio: dict[str, Any]) -> str:
    """A speed-up with its interval."""
    return f"{ratio['median']:.2f}x (95 %: {ratio['low']:.2f} to {ratio['high']:.2f})"


def shortened(text: str, limit: int = 110) -> str:
    """One line of a terminal."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
