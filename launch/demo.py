"""`demo`: the main job without a browser, through the REST API alone.

Upload an example, let `codegen` optimise it, follow what happens, download the source zip, build it, call
it. Every wait has an end, and whatever did not happen is a sentence and a non-zero exit code.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from launch import seed, take_home
from launch.client import Client, JsonObject
from launch.console import LaunchError, say
from launch.narration import Narrator, ratio_text
from launch.own_site import own_site
from launch.places import home_of
from launch.stack import answers, manage, running

CHECK_S = 180
SESSION_S = 1200
BASELINE_S = 300


@dataclass(frozen=True)
class Optimised:
    """A finished session, with what was waited for."""

    session: str
    evaluation: str
    first_verdict_s: float | None
    """From the upload to the first verdict that passed."""


def run(environ: Mapping[str, str], *, example: str, url: str, token: str) -> int:
    """The whole chain; raises `LaunchError` where it breaks."""
    name = example or seed.example_names()[0]
    files = seed.example_files(name)
    with _site(environ, url, token) as client:
        say(f"Uploading examples/{name} to {client.url}")
        optimised = optimise(client, files)
        verdict = client.get(f"evaluations/{optimised.evaluation}")
        _show_verdict(verdict, wait_for_compile(client, optimised.evaluation), optimised)
        filename, archive = client.download(f"sessions/{optimised.session}/source.zip")
    folder = home_of(environ) / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / Path(filename).name
    path.write_bytes(archive)
    say(f"Downloaded {path} ({len(archive):,} bytes)")
    with tempfile.TemporaryDirectory(prefix="warpsmith-demo-") as temporary:
        called = take_home.build_and_call(archive, Path(temporary), environ)
    say(
        f"Built it and called {called.package}.ModelNew: {called.outputs} output(s), "
        f"relative error {called.relative_error:.1e} against the uploaded model"
    )
    return 0


def optimise(
    client: Client,
    files: Mapping[str, str],
    on_session: Callable[[str], None] | None = None,
) -> Optimised:
    """Upload a problem, run a `codegen` session to its end, and tell what happens."""
    started = time.monotonic()
    problem = client.post("problems", {"files": dict(files)})
    _wait_until_checked(client, str(problem["id"]))
    session = str(client.post("sessions", {"problem": problem["id"], "author": "codegen"})["id"])
    if on_session is not None:
        on_session(session)
    first = _follow(client, session, started)
    state = client.get(f"sessions/{session}")
    best = state.get("best")
    if state["state"] != "finished" or not isinstance(best, dict):
        raise LaunchError(f"The session ended as {state['state']}: {state.get('reason', '')}")
    return Optimised(session, str(best["evaluation"]), first)


def wait_for_compile(client: Client, evaluation: str) -> JsonObject | None:
    """The speed-up against torch.compile, which follows in a quiet moment."""
    end = time.monotonic() + BASELINE_S
    said = False
    while True:
        data = client.get(f"evaluations/{evaluation}")
        ratio = data.get("speedup_compile")
        if isinstance(ratio, dict):
            return ratio
        if not data.get("speedup_compile_pending", True) or time.monotonic() > end:
            return None
        if not said:
            say("  waiting for torch.compile's time")
            said = True
        time.sleep(1)


@contextlib.contextmanager
def _site(environ: Mapping[str, str], url: str, token: str) -> Iterator[Client]:
    """The site that was named, else the one that runs here, else one of our own."""
    home = home_of(environ)
    if url:
        if not token:
            raise LaunchError("Give --token with --url: an API token of that site.")
        yield Client(url, token)
        return
    found = running(home)
    if found is not None and answers(str(found["url"])):
        printed = manage(home, environ, "bootstrap", "--token", "--token-days", "1")
        yield Client(str(found["url"]), json.loads(printed.strip().splitlines()[-1])["token"])
        return
    say(f"No site runs with the folder {home}; starting one for this demo")
    with own_site(home, environ) as site:
        yield site.client


def _wait_until_checked(client: Client, problem: str) -> None:
    end = time.monotonic() + CHECK_S
    while time.monotonic() < end:
        data = client.get(f"problems/{problem}")
        if data["state"] == "ready":
            say("  accepted: the judge ran it, and its output depends on its input")
            return
        if data["state"] == "refused":
            raise LaunchError(f"The problem was refused: {data.get('reason', '')}")
        time.sleep(0.3)
    raise LaunchError(f"The problem was not checked within {CHECK_S} s.")


def _follow(client: Client, session: str, started: float) -> float | None:
    """Print one line per stage until the session is over; seconds to its first passed verdict."""
    end = time.monotonic() + SESSION_S
    narrator = Narrator(started)
    after = 0
    while time.monotonic() < end:
        page = client.get(f"sessions/{session}/events?after={after}&wait=10", timeout_s=60)
        for event in page["events"]:
            if event["seq"] != after + 1:
                raise LaunchError(f"Event {after + 1} of the session is missing.")
            after = event["seq"]
            for line in narrator.tell(event):
                say(line)
        if page["done"] and after >= page["last_seq"]:
            return narrator.first_verdict_s
    client.post(f"sessions/{session}/stop", {})
    raise LaunchError(f"The session was not over within {SESSION_S} s and was asked to stop.")


def _show_verdict(verdict: JsonObject, compiled: JsonObject | None, done: Optimised) -> None:
    inner = verdict.get("verdict") or verdict
    timing = inner.get("timing")
    if inner["status"] != "passed" or not timing:
        raise LaunchError(f"The best verdict is {inner['status']}: {inner['summary']}")
    say(f"Verdict: {inner['status']}. {inner['summary']}")
    say(f"  against eager          {ratio_text(timing['speedup_eager'])}")
    say(f"  against torch.compile  {ratio_text(compiled) if compiled else 'not measured in time'}")
    if done.first_verdict_s is not None:
        say(f"  first verdict          {done.first_verdict_s:.1f} s after the upload")
    if compiled is None:
        raise LaunchError(f"torch.compile's time was not there within {BASELINE_S} s.")
