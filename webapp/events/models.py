"""The event log: append-only streams with a gapless sequence each."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone

from webapp.common.models import Identified
from webapp.teams.models import Team


class Stream(Identified):
    """One log. Its id is the id of what it tells about, such as a session."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    last_seq = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"stream {self.id} at {self.last_seq}"


class LogEntry(models.Model):
    """One event. Written by `services.append` alone, never changed."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="entries")
    seq = models.PositiveBigIntegerField()
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=40)
    """A `workers.protocol.events.EventKind`."""
    body = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["stream_id", "seq"]
        verbose_name_plural = "log entries"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["stream", "seq"], name="logentry_once"),
            models.CheckConstraint(condition=models.Q(seq__gte=1), name="logentry_seq_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.stream_id}#{self.seq} {self.kind}"
