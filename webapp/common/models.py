"""What every table of ours begins with. No table lives here."""

from __future__ import annotations

import uuid

from django.db import models


class Identified(models.Model):
    """A row with an id that tells nothing and a time of birth (UTC)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(auto_now_add=True, editable=False)

    class Meta:
        abstract = True
