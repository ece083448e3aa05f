"""What ends a session from inside.

AgentError
├── Stopped              ends the session; its text is the reason that people read
│   ├── Cancelled        somebody asked for it            -> "stopped"
│   ├── LimitReached     turns, wall time, bad replies    -> "finished" with a best, else "failed"
│   └── JudgeUnavailable the judge failed twice by itself -> "failed"
├── Refusal              a tool refuses its arguments; becomes an observation, never ends anything
└── UnknownAuthor        no author has this name
"""

from __future__ import annotations


class AgentError(Exception):
    """The root of this package's own errors."""


class Stopped(AgentError):
    """The session ends here; `str(error)` is one sentence for people."""


class Cancelled(Stopped):
    """Somebody asked the session to stop. Raised by `Control.boundary`."""


class LimitReached(Stopped):
    """One of the limits in `agent.config.Limits` is used up."""


class JudgeUnavailable(Stopped):
    """Two evaluations in a row failed without the candidate's doing."""


class Refusal(AgentError):
    """A tool cannot do what was asked; the text tells the author why and what to do instead."""


class UnknownAuthor(AgentError, ValueError):
    """No author has this name; the text lists those that exist."""
