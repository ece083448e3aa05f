"""`manage.py import_session FILE`: bring a recorded session into a team. Idempotent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.common.errors import UserError
from webapp.exports.recording import restore
from webapp.teams.models import Role, Team


class Command(BaseCommand):
    help = "Makes the session of a recording in a team; one that is there stays as it is."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--team", required=True, help="slug of the team")

    def handle(self, *_args: Any, **options: Any) -> None:
        team = Team.objects.filter(slug=options["team"]).first()
        owner = None if team is None else team.memberships.filter(role=Role.OWNER).first()
        if team is None or owner is None:
            raise CommandError(f"There is no team {options['team']!r} with an owner.")
        try:
            session = restore(options["file"].read_bytes(), team, owner.user)
        except OSError as error:
            raise CommandError(f"{options['file']} cannot be read: {error.strerror}") from error
        except UserError as error:
            raise CommandError(error.sentence) from error
        self.stdout.write(f"session {session.pk}")
