"""The Celery app of the site: `celery -A webapp.celery_app worker -Q web`.

It shares its recipe with the workers' app but none of its tasks: neither side can run the other's.
"""

from __future__ import annotations

import os

from django.conf import settings

from workers.celery_app import make_app

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

app = make_app(
    "warpsmith-site", settings.BROKER_URL, ["webapp.evaluations.tasks", "webapp.studio.tasks"]
)
