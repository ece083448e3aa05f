"""What every page says while nothing can be judged here."""

from __future__ import annotations

import time

from django.http import HttpRequest

from webapp.common.artifacts import artifact_store
from workers.capabilities import announced
from workers.protocol.problem import Target

_LOOK_AGAIN_S = 5.0


class _Looked:
    """The last look at what workers announced, shared by the requests of a process."""

    at = -_LOOK_AGAIN_S
    problem = ""


def judge_problem() -> str:
    """Why no worker can judge, with the command that helps; empty where one can or none has said yet."""
    now = time.monotonic()
    if now - _Looked.at >= _LOOK_AGAIN_S:
        offers = [one for target in Target for one in announced(artifact_store(), target)]
        can = any(not one.problem for one in offers)
        _Looked.problem = "" if can or not offers else offers[0].problem
        _Looked.at = now
    return _Looked.problem


def judging(request: HttpRequest) -> dict[str, str]:
    """Context processor: `judge_problem` for those who are signed in."""
    user = getattr(request, "user", None)  # error pages may come before anybody is known
    return {"judge_problem": judge_problem() if user is not None and user.is_authenticated else ""}
