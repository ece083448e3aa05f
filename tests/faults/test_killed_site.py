"""The whole site ends in the middle of a session and is started again in the same folder, at the same port."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.own_site import OwnSite, own_site
from launch.stack import running
from tests.faults.conftest import environment
from tests.faults.living_site import (
    MODEL,
    LivingSite,
    below,
    eventually,
    session_on,
)

pytestmark = pytest.mark.slow


def the_launchers_group(own: OwnSite) -> None:
    os.killpg(own.pid, signal.SIGKILL)


def every_process(own: OwnSite) -> None:
    """As when the power fails."""
    for process in below(own.pid):
        process.kill()
    os.kill(own.pid, signal.SIGKILL)


def nobody_but_asked(own: OwnSite) -> None:
    """Ctrl-C: what is measured is handed back, and nothing takes longer than promised."""
    doomed = below(own.pid)
    os.kill(own.pid, signal.SIGTERM)
    eventually("all have ended", lambda: not any(process.alive for process in doomed), 15)
    eventually("the launcher has too", lambda: running(own.home) is None, 10)


@pytest.mark.parametrize("kill", [the_launchers_group, every_process, nobody_but_asked])
def test_it_goes_on_when_it_is_started_again(kill: Callable[[OwnSite], None]):
    with tempfile.TemporaryDirectory(prefix="ws-") as folder:
        with own_site(Path(folder), environment(folder)) as first:
            site = LivingSite.of(first)
            problem = site.upload("Relu", {"model.py": MODEL})
            with session_on(site, problem) as session:
                session.wait_for_turns(1)
                job = eventually("a candidate is measured", lambda: site.job("device"), 90)
                behind = session.turns
                doomed = below(first.pid)
                kill(first)
                port = int(site.url.rpartition(":")[2])
                with own_site(Path(folder), environment(folder), port=port) as second:
                    assert [process for process in doomed if process.alive] == []
                    assert second.url == first.url
                    site.launcher = second.pid
                    session.goes_on(behind)
                    session.end()
                    left = below(second.pid)
                    # That its worker died with the site speaks against nobody.
                    counts = "SELECT failures, losses, returns FROM evaluations_job WHERE id = ?"
                    assert site.rows(counts, job)[0][:2] == (0, 0)
                    assert f"goes on behind turn {behind}" in session.said()
        assert [process for process in left if process.alive] == []
