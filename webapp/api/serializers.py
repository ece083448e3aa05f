"""Shapes of requests and responses."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from webapp.api.models import ApiToken
from webapp.evaluations.models import Evaluation
from webapp.evaluations.queries import (
    baseline_pending,
    inspection_of,
    speedup_compile,
    speedup_eager,
)
from webapp.problems.models import Problem
from webapp.studio.models import Session
from webapp.studio.services import AUTHORS
from workers.protocol.events import EventKind
from workers.protocol.verdict import Ratio


class RatioSerializer(serializers.Serializer[Ratio]):
    """A speed-up with its 95 % interval; above 1 is faster."""

    median = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()
    pairs = serializers.IntegerField(help_text="Paired measurements behind it.")


class SourceField(serializers.CharField):
    """Text that is looked at by the upload itself, which has better sentences for odd characters."""

    def run_validators(self, value: Any) -> None:
        """None here."""


class UploadSerializer(serializers.Serializer[Any]):
    """A problem to upload."""

    title = serializers.CharField(required=False, allow_blank=True, max_length=500)
    files = serializers.DictField(
        child=SourceField(trim_whitespace=False, allow_blank=True),
        help_text="`model.py`, and `problem.toml` if you like, as text.",
    )


class InspectionSerializer(serializers.Serializer[Any]):
    """What the judge saw when it looked at the problem alone."""

    operators = serializers.IntegerField(help_text="Calls of ATen operators in one forward.")
    flops = serializers.IntegerField()
    bytes_moved = serializers.IntegerField()
    eager_ms = serializers.FloatField(allow_null=True)
    floor_ms = serializers.FloatField(
        allow_null=True, help_text="Time for moving the bytes once at copy speed."
    )


class ProblemSerializer(serializers.ModelSerializer[Problem]):
    """A problem."""

    inspection = serializers.SerializerMethodField()
    url = serializers.CharField(source="get_absolute_url", read_only=True)

    class Meta:
        model = Problem
        fields = (
            "id",
            "title",
            "slug",
            "digest",
            "target",
            "state",
            "reason",
            "inspection",
            "created_at",
            "url",
        )
        read_only_fields = fields

    @extend_schema_field(InspectionSerializer(allow_null=True))
    def get_inspection(self, problem: Problem) -> dict[str, Any] | None:
        """None until the judge has looked."""
        seen = inspection_of(problem)
        if seen is None:
            return None
        return {
            "operators": len(seen.nodes),
            "flops": seen.flops,
            "bytes_moved": seen.bytes_moved,
            "eager_ms": seen.eager_ms,
            "floor_ms": seen.floor_ms,
        }


class StartSerializer(serializers.Serializer[Any]):
    """A session to start."""

    problem = serializers.UUIDField()
    author = serializers.CharField(
        required=False, default=AUTHORS[0], help_text=f"One of: {', '.join(AUTHORS)}."
    )


class BestSerializer(serializers.Serializer[Any]):
    """The best verified snapshot so far."""

    turn = serializers.IntegerField()
    snapshot = serializers.CharField(help_text="Digest.")
    evaluation = serializers.UUIDField()
    speedup = RatioSerializer(help_text="Against eager.")
    speedup_compile = RatioSerializer(allow_null=True, help_text="Against torch.compile.")


class SessionSerializer(serializers.ModelSerializer[Session]):
    """A session."""

    best = serializers.SerializerMethodField()
    url = serializers.CharField(source="get_absolute_url", read_only=True)

    class Meta:
        model = Session
        fields = (
            "id",
            "problem",
            "author",
            "state",
            "reason",
            "turn_count",
            "best",
            "created_at",
            "started_at",
            "finished_at",
            "url",
        )
        read_only_fields = fields

    @extend_schema_field(BestSerializer(allow_null=True))
    def get_best(self, session: Session) -> dict[str, Any] | None:
        """None while nothing correct was measured."""
        evaluation, snapshot = session.best_evaluation, session.best_snapshot
        if evaluation is None or snapshot is None:
            return None
        return {
            "turn": session.best_turn,
            "snapshot": snapshot.digest,
            "evaluation": str(evaluation.pk),
            "speedup": ratio_data(speedup_eager(evaluation)),
            "speedup_compile": ratio_data(speedup_compile(evaluation)),
        }


class EvaluationSerializer(serializers.ModelSerializer[Evaluation]):
    """A verdict. `verdict` is the judge's own JSON, as `python -m workers evaluate --json` prints it."""

    snapshot = serializers.SerializerMethodField()
    verdict = serializers.JSONField(source="verdict_data", allow_null=True, read_only=True)
    speedup_eager = serializers.SerializerMethodField()
    speedup_compile = serializers.SerializerMethodField()
    speedup_compile_pending = serializers.SerializerMethodField()
    url = serializers.CharField(source="get_absolute_url", read_only=True)

    class Meta:
        model = Evaluation
        fields = (
            "id",
            "problem",
            "snapshot",
            "state",
            "status",
            "summary",
            "held",
            "certified",
            "speedup_eager",
            "speedup_compile",
            "speedup_compile_pending",
            "verdict",
            "created_at",
            "finished_at",
            "url",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.CharField(help_text="Digest; empty for a problem alone."))
    def get_snapshot(self, evaluation: Evaluation) -> str:
        return evaluation.snapshot.digest if evaluation.snapshot else ""

    @extend_schema_field(RatioSerializer(allow_null=True))
    def get_speedup_eager(self, evaluation: Evaluation) -> dict[str, Any] | None:
        return ratio_data(speedup_eager(evaluation))

    @extend_schema_field(RatioSerializer(allow_null=True))
    def get_speedup_compile(self, evaluation: Evaluation) -> dict[str, Any] | None:
        return ratio_data(speedup_compile(evaluation))

    @extend_schema_field(serializers.BooleanField(help_text="It may still become known."))
    def get_speedup_compile_pending(self, evaluation: Evaluation) -> bool:
        return speedup_compile(evaluation) is None and baseline_pending(evaluation.problem)


class EventSerializer(serializers.Serializer[Any]):
    """A durable event."""

    stream = serializers.UUIDField()
    seq = serializers.IntegerField(min_value=1)
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(
        choices=[(kind.value, kind.value) for kind in EventKind], help_text="What happened."
    )
    body = serializers.DictField(help_text="Its keys depend on the kind.")
    version = serializers.IntegerField()


class EventPageSerializer(serializers.Serializer[Any]):
    """A piece of a stream."""

    events = EventSerializer(many=True)
    last_seq = serializers.IntegerField(help_text="Of the whole stream.")
    done = serializers.BooleanField(help_text="No more will come after `last_seq`.")


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token without its text."""

    class Meta:
        model = ApiToken
        fields = ("id", "name", "hint", "created_at", "expires_at", "last_used_at")
        read_only_fields = fields


class NewTokenSerializer(serializers.Serializer[Any]):
    """A token to make."""

    name = serializers.CharField(max_length=100)
    days = serializers.IntegerField(required=False, default=30, min_value=1, max_value=365)


class ShownTokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A new token; its text is shown this once."""

    token = serializers.CharField(read_only=True)

    class Meta:
        model = ApiToken
        fields = ("id", "name", "hint", "created_at", "expires_at", "last_used_at", "token")
        read_only_fields = fields


class ErrorSerializer(serializers.Serializer[Any]):
    """`application/problem+json`."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="One sentence that says what to do.")
    field = serializers.CharField(required=False, help_text="The field it is about.")


def ratio_data(ratio: Ratio | None) -> dict[str, Any] | None:
    """A speed-up as JSON."""
    return None if ratio is None else dict(RatioSerializer(ratio).data)
