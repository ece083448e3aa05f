"""`manage.py bootstrap`: the first user, the first team, and a way in, as one line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from webapp.api.bootstrap import bootstrap
from webapp.api.tokens import DEFAULT_DAYS


class Command(BaseCommand):
    help = "Makes the user admin and a team unless they exist; prints a one-time sign-in path."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--migrate", action="store_true", help="bring the database up to date first"
        )
        parser.add_argument("--team", default="Workshop", help="name of the team")
        parser.add_argument("--token", action="store_true", help="make an API token too")
        parser.add_argument("--token-days", type=int, default=DEFAULT_DAYS)

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["migrate"]:
            call_command("migrate", interactive=False, verbosity=0)
        done = bootstrap(
            settings.HOME,
            options["team"],
            settings.ADMIN_PASSWORD,
            token_days=options["token_days"] if options["token"] else None,
        )
        shown = {name: value for name, value in asdict(done).items() if value != ""}
        self.stdout.write(json.dumps(shown))
