"""`manage.py sessions_host`: run sessions until SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from webapp.studio.host import SessionHost

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Runs the sessions of this site, several at once. Start as many hosts as you like."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--capacity", type=int, default=8, help="sessions at once")

    def handle(self, *_args: Any, **options: Any) -> None:
        asyncio.run(_run(SessionHost(options["capacity"])))


async def _run(host: SessionHost) -> None:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    logger.info("session host %s is ready", host.name)
    await host.run(ending)
