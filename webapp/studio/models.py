"""Sessions and their turns."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.urls import reverse

from webapp.common.models import Identified
from webapp.evaluations.models import Evaluation, Snapshot
from webapp.problems.models import Problem
from webapp.teams.models import Team, User


class SessionState(models.TextChoices):
    """
    queued ── running ─┬─ finished                       a best snapshot, or nothing left to try
      │        │  ↑    ├─ failed                         no correct snapshot; `reason` says why
      │        │  │    └─ crashed                        our fault: the host failed again and again
      │      pausing ── paused                           both go back to running
      └────────┴──────────┴────── stopping ── stopped    asked for by a person
    """

    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    PAUSING = "pausing", "Pausing"
    PAUSED = "paused", "Paused"
    STOPPING = "stopping", "Stopping"
    STOPPED = "stopped", "Stopped"
    FINISHED = "finished", "Finished"
    FAILED = "failed", "Failed"
    CRASHED = "crashed", "Crashed"


HOSTED_STATES = (
    SessionState.RUNNING,
    SessionState.PAUSING,
    SessionState.PAUSED,
    SessionState.STOPPING,
)
"""A host must hold a lease on these."""

LIVE_STATES = (SessionState.QUEUED, *HOSTED_STATES)

FINAL_STATES = (
    SessionState.STOPPED,
    SessionState.FINISHED,
    SessionState.FAILED,
    SessionState.CRASHED,
)


class Session(Identified):
    """One optimisation of one problem by one author. Its event stream has the session's id."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="sessions")
    problem = models.ForeignKey(Problem, on_delete=models.CASCADE, related_name="sessions")
    creator = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    author = models.CharField(max_length=200)
    """Name of the author, as `agent.authors.make_author` knows it."""
    state = models.CharField(
        max_length=10, choices=SessionState, default=SessionState.QUEUED, db_index=True
    )
    reason = models.TextField(blank=True)
    """Why it is in this state, one sentence for people."""
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    turn_count = models.PositiveIntegerField(default=0)
    """Finished turns."""

    best_turn = models.PositiveIntegerField(null=True, blank=True)
    best_snapshot = models.ForeignKey(
        Snapshot, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    best_evaluation = models.ForeignKey(
        Evaluation, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    open_evaluation = models.ForeignKey(
        Evaluation, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    """The question to the judge whose answer was not told yet. When the run that asked it is gone, the next
    one takes the answer if it asks the same, and else withdraws the question."""

    host = models.CharField(max_length=200, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    fence = models.PositiveIntegerField(default=0)
    """Grows with each host that takes the session; a host with an older one may write nothing."""
    adoptions = models.PositiveIntegerField(default=0)
    """Hosts that took the session over since its last finished turn."""
    stop_requested_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]
        indexes: ClassVar = [models.Index(fields=["problem", "-created_at"], name="session_recent")]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(state__in=SessionState.values), name="session_state"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.problem} by {self.author} ({self.state})"

    def get_absolute_url(self) -> str:
        return reverse("studio:session", args=[self.pk])

    @property
    def live(self) -> bool:
        """Whether something may still happen in it."""
        return self.state in LIVE_STATES


class Turn(Identified):
    """A finished turn: what is needed to go on behind it."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="turns")
    number = models.PositiveIntegerField()
    """Counted from 1."""
    text = models.TextField(blank=True)
    snapshot = models.ForeignKey(
        Snapshot, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    transcript_digest = models.CharField(max_length=64)
    """JSON lines of `TranscriptEntry` in the artifact store."""

    class Meta:
        ordering: ClassVar = ["session_id", "number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "number"], name="turn_once"),
        ]

    def __str__(self) -> str:
        return f"turn {self.number} of {self.session_id}"
