"""`manage.py record_session ID FILE`: write a finished session into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.common.errors import UserError
from webapp.exports.recording import record
from webapp.studio.models import Session


class Command(BaseCommand):
    help = "Writes a finished session, its verdicts and its files into one file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session", help="id of the session")
        parser.add_argument("file", type=Path)

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            session = Session.objects.filter(pk=options["session"]).first()
            if session is None:
                raise CommandError("There is no such session.")
            options["file"].write_bytes(record(session))
        except UserError as error:
            raise CommandError(error.sentence) from error
        self.stdout.write(f"{options['file']}: {options['file'].stat().st_size:,} bytes")
