"""Snapshots, verdicts, and the jobs that lead to them.

The database is the truth of work: a `Job` row says what is to be done, by which attempt, until when.
Queue messages only hint at rows.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.urls import reverse
from django.utils import timezone

from webapp.common.models import Identified
from webapp.problems.models import Problem
from webapp.teams.models import Team
from workers.protocol.codec import from_data
from workers.protocol.problem import Precision, Stage, Target, Tier
from workers.protocol.requests import BuildResult, EvaluateRequest
from workers.protocol.verdict import Evaluation as Verdict
from workers.protocol.verdict import Status


class Snapshot(Identified):
    """The author's files of a workspace, as a team has them; the bytes lie in the artifact store."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    paths = models.JSONField(default=list)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "digest"], name="snapshot_once_per_team")
        ]

    def __str__(self) -> str:
        return self.digest[:12]


class EvaluationState(models.TextChoices):
    """
    pending ─┬─ building ─┬─ measuring ─┬─ done    the verdict is there
             │            │             └─ lost    given up: no worker answered
             └────────────┴─ done or lost
    """

    PENDING = "pending", "Waiting"
    BUILDING = "building", "Building"
    MEASURING = "measuring", "Measuring"
    DONE = "done", "Done"
    LOST = "lost", "Lost"


class Evaluation(Identified):
    """One question to the judge, and the verdict. `lost` ones hold an `infrastructure` verdict too."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    problem = models.ForeignKey(Problem, on_delete=models.CASCADE, related_name="evaluations")
    snapshot = models.ForeignKey(
        Snapshot, on_delete=models.PROTECT, null=True, blank=True, related_name="evaluations"
    )
    stages = models.JSONField()
    tier = models.CharField(max_length=10, choices=[(t.value, t.value) for t in Tier])
    precision = models.CharField(max_length=10, choices=[(p.value, p.value) for p in Precision])
    state = models.CharField(
        max_length=10, choices=EvaluationState, default=EvaluationState.PENDING, db_index=True
    )
    finished_at = models.DateTimeField(null=True, blank=True)
    verdict_data = models.JSONField(null=True, blank=True)
    """`workers.protocol.verdict.Evaluation` as JSON; the columns below repeat parts of it for lists."""
    status = models.CharField(max_length=20, blank=True, db_index=True)
    summary = models.TextField(blank=True)
    held = models.BooleanField(default=False)
    certified = models.BooleanField(default=False)
    speedup_median = models.FloatField(null=True, blank=True)
    """Eager time over candidate time."""
    speedup_low = models.FloatField(null=True, blank=True)
    speedup_high = models.FloatField(null=True, blank=True)
    eager_ms = models.FloatField(null=True, blank=True)
    candidate_ms = models.FloatField(null=True, blank=True)
    device_name = models.CharField(max_length=200, blank=True)
    torch_version = models.CharField(max_length=60, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]
        indexes: ClassVar = [
            models.Index(fields=["problem", "-created_at"], name="evaluation_recent")
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(state__in=EvaluationState.values), name="evaluation_state"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=["", *(status.value for status in Status)]),
                name="evaluation_status",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.problem}: {self.status or self.state}"

    def get_absolute_url(self) -> str:
        return reverse("evaluations:detail", args=[self.pk])

    @property
    def over(self) -> bool:
        """Whether the verdict is there."""
        return self.state in (EvaluationState.DONE, EvaluationState.LOST)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, read; None while it is not there."""
        return None if self.verdict_data is None else from_data(Verdict, self.verdict_data)

    @property
    def request(self) -> EvaluateRequest:
        """What the judge is asked."""
        return EvaluateRequest(
            problem=self.problem.digest,
            snapshot=self.snapshot.digest if self.snapshot else "",
            stages=tuple(Stage(stage) for stage in self.stages),
            target=Target(self.problem.target),
            tier=Tier(self.tier),
            precision=Precision(self.precision),
        )


class JobKindChoice(models.TextChoices):
    BUILD = "build", "Build"
    DEVICE = "device", "Device"


class JobState(models.TextChoices):
    """
    idle ── queued ── running ─┬─ answered   an answer was recorded
              └───────┴────────┴─ given_up   all attempts are used up

    `idle` waits for a quiet moment and is not hinted at before. A lost worker, and one that hands the job
    back, bring it from `running` to where it began, `queued` or `idle`, with the next attempt and fence.
    """

    IDLE = "idle", "For a quiet moment"
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    ANSWERED = "answered", "Answered"
    GIVEN_UP = "given_up", "Given up"


OPEN_JOB_STATES = (JobState.QUEUED, JobState.RUNNING)


class Job(Identified):
    """A piece of work for a builder or a device worker.

    The one-time token of an attempt is kept nowhere: `services.job_token` derives it from the secret key.
    """

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="jobs")
    kind = models.CharField(max_length=10, choices=JobKindChoice)
    queue = models.CharField(max_length=60)
    state = models.CharField(
        max_length=10, choices=JobState, default=JobState.QUEUED, db_index=True
    )
    attempt = models.PositiveIntegerField(default=1)
    failures = models.PositiveIntegerField(default=0)
    """Attempts that failed; those that were handed back did not."""
    losses = models.PositiveIntegerField(default=0)
    """Failures of these in which the worker died."""
    returns = models.PositiveIntegerField(default=0)
    """Attempts that were handed back."""
    fence = models.PositiveIntegerField(default=1)
    """Grows with each attempt; answers with another one are refused."""
    deadline = models.DateTimeField(null=True, blank=True)
    """While running: when the worker counts as gone unless it gives a sign of life."""
    queued_at = models.DateTimeField(default=timezone.now)
    """Since when this attempt waits for a worker."""
    hinted_at = models.DateTimeField(null=True, blank=True)
    hints = models.PositiveIntegerField(default=0)
    """Hints sent for this attempt."""
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    worker = models.CharField(max_length=200, blank=True)
    build_data = models.JSONField(null=True, blank=True)
    """For device jobs with a snapshot: the `BuildResult` to measure."""
    background = models.BooleanField(default=False)
    """May wait for a quiet moment, so that it delays nobody."""
    gives_way = models.BooleanField(default=False)
    """Its worker leaves it as soon as somebody else needs the device."""

    class Meta:
        ordering: ClassVar = ["created_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["evaluation", "kind"], name="job_once_per_kind"),
            models.CheckConstraint(condition=models.Q(state__in=JobState.values), name="job_state"),
            models.CheckConstraint(
                condition=models.Q(kind__in=JobKindChoice.values), name="job_kind"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id} #{self.attempt} ({self.state})"

    @property
    def build(self) -> BuildResult | None:
        """The build that a device job measures."""
        return None if self.build_data is None else from_data(BuildResult, self.build_data)


class Baseline(Identified):
    """What torch.compile gains over eager: a paired ratio, never a time, so that it can be kept."""

    problem = models.ForeignKey(Problem, on_delete=models.CASCADE, related_name="baselines")
    evaluation = models.OneToOneField(
        Evaluation, on_delete=models.CASCADE, related_name="baseline_row"
    )
    device_name = models.CharField(max_length=200)
    torch_version = models.CharField(max_length=60)
    precision = models.CharField(max_length=10)
    ratio_median = models.FloatField()
    """Eager time over compiled time."""
    ratio_low = models.FloatField()
    ratio_high = models.FloatField()
    pairs = models.PositiveIntegerField()
    announced_at = models.DateTimeField(null=True, blank=True)
    """When the sessions of the problem were told."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["problem", "device_name", "torch_version", "precision"],
                name="baseline_once",
            )
        ]

    def __str__(self) -> str:
        return f"torch.compile on {self.problem}: {self.ratio_median:.2f}x"
