"""Wrong settings stop the start by name; responses carry the policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.test import Client

from webapp.common.environment import Environment
from webapp.common.secret_key import kept_secret_key
from workers.redis_url import broker_url, default_redis_url


def ids() -> set[str]:
    return {str(message.id) for message in run_checks() if str(message.id).startswith("webapp.")}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SETTINGS_PROBLEMS", ["WARPSMITH_DEBUG is 'yes'; use 1 or 0"], "webapp.E001"),
        ("TIME_ZONE", "Europe/Berlin", "webapp.E002"),
        ("REDIS_URL", "http://localhost", "webapp.E003"),
        ("REDIS_URL", "unix://" + "/long" * 30, "webapp.E003"),
        ("HOME", Path(__file__, "below"), "webapp.E004"),
        ("SECRET_KEY", "short", "webapp.E005"),
    ],
)
def test_a_wrong_setting_is_an_error_with_an_id(settings, name, value, expected):
    assert ids() == set()
    setattr(settings, name, value)
    assert expected in ids()


def test_an_open_door_is_a_warning(settings):
    settings.HOSTS = ["warpsmith.example"]
    assert ids() == {"webapp.W002"}
    settings.DEBUG = True
    assert ids() == {"webapp.W001", "webapp.W002"}


@pytest.mark.parametrize("value", ["yes", "true", "2"])
def test_a_flag_is_one_or_nought(value):
    environment = Environment({"WARPSMITH_DEBUG": value})
    assert environment.flag("WARPSMITH_DEBUG") is False
    assert environment.problems == [f"WARPSMITH_DEBUG is {value!r}; use 1 or 0"]


def test_an_unknown_sandbox_is_named_and_the_strongest_is_taken_instead():
    environment = Environment({"WARPSMITH_SANDBOX": "docker"})
    assert environment.workers().sandbox == "auto"
    assert "WARPSMITH_SANDBOX is 'docker'" in environment.problems[0]


def test_a_secret_may_lie_in_a_file(tmp_path):
    (tmp_path / "key").write_text("from a file\n")
    environment = Environment({"WARPSMITH_SECRET_KEY_FILE": str(tmp_path / "key")})
    assert environment.text("WARPSMITH_SECRET_KEY") == "from a file"
    missing = Environment({"WARPSMITH_SECRET_KEY_FILE": str(tmp_path / "none")})
    assert missing.text("WARPSMITH_SECRET_KEY") == ""
    assert missing.problems == [
        "WARPSMITH_SECRET_KEY_FILE cannot be read: No such file or directory"
    ]


def test_a_database_is_named_by_address(tmp_path):
    url = "postgresql://ann:p%40ss@db:5433/warp?sslmode=require"
    found = Environment({"WARPSMITH_DATABASE_URL": url}).database(
        "WARPSMITH_DATABASE_URL", tmp_path
    )
    assert found["ENGINE"] == "django.db.backends.postgresql"
    named = {name: found[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")}
    assert named == {
        "NAME": "warp",
        "USER": "ann",
        "PASSWORD": "p@ss",
        "HOST": "db",
        "PORT": "5433",
        "OPTIONS": {"sslmode": "require"},
    }
    odd = Environment({"WARPSMITH_DATABASE_URL": "mysql://x"})
    odd.database("WARPSMITH_DATABASE_URL", tmp_path)
    assert "write postgresql://" in odd.problems[0]


def test_the_secret_key_is_made_once_and_is_private(tmp_path):
    home = tmp_path / "var"
    key = kept_secret_key(home)
    assert len(key) >= 50
    assert kept_secret_key(home) == key
    assert (home / "secret_key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.iterdir()] == ["secret_key"]


def test_redis_has_one_address_in_two_spellings():
    url = default_redis_url(Path("/srv/var"))
    assert url == "unix:///srv/var/redis.sock"
    assert broker_url(url) == "redis+socket:///srv/var/redis.sock?virtual_host=0"
    assert broker_url("unix:///r.sock?db=3") == "redis+socket:///r.sock?virtual_host=3"
    assert broker_url("redis://h:6379/2") == "redis://h:6379/2"


@pytest.mark.django_db
def test_pages_run_no_inline_script_and_load_from_here_alone():
    policy = Client().get("/accounts/login/")["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    admin = Client().get("/admin/login/")["Content-Security-Policy"]
    assert "'unsafe-eval'" in admin
    assert "frame-ancestors 'none'" in admin


@pytest.mark.django_db
def test_it_says_that_it_is_well():
    response = Client().get("/healthz")
    assert (response.status_code, response.content) == (200, b"ok\n")
