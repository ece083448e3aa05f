"""The first user, the first team, and ways in. Idempotent."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from webapp.api.tokens import make_token
from webapp.common.secret_key import write_private_file
from webapp.teams.models import Team, User
from webapp.teams.services import ensure_team, make_entry_link

ADMIN = "admin"


@dataclass(frozen=True)
class Bootstrapped:
    """What `bootstrap` found or made."""

    user: str
    team: str
    created: bool
    """Whether the user is new."""
    entry: str
    """Path that signs the user in once."""
    token: str = ""


def bootstrap(
    home: Path, team_name: str, password: str = "", *, token_days: int | None = None
) -> Bootstrapped:
    """Make the user `admin` with a password and a team, unless they exist; give ways in.

    A password that is not given is generated into `admin_password` in the run-time folder. With
    `token_days` a fresh API token is made.
    """
    user, created = User.objects.get_or_create(
        username=ADMIN, defaults={"is_staff": True, "is_superuser": True}
    )
    if created or not user.has_usable_password() or not user.password:
        user.set_password(password or _kept_password(home))
        user.save(update_fields=["password"])
    team: Team = ensure_team(team_name, user)
    token = make_token(user, "bootstrap", token_days)[1] if token_days is not None else ""
    return Bootstrapped(user.username, team.slug, created, make_entry_link(user), token)


def _kept_password(home: Path) -> str:
    """The password in `admin_password`, made there if the file is missing."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "admin_password"
    write_private_file(path, secrets.token_urlsafe(15))
    return path.read_text().strip()
