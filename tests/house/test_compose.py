"""docker-compose.yml keeps the promises of docs/processes.md about who can reach what."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
WORKERS = ("build-worker", "device-worker")
SITE = ("web", "recorder", "agent")
OURS = (*SITE, *WORKERS, "setup")


def test_every_role_has_its_container():
    assert set(SERVICES) == {*OURS, "redis", "postgres"}


@pytest.mark.parametrize("name", WORKERS)
def test_workers_know_neither_the_database_nor_the_sites_secrets(name: str):
    settings = SERVICES[name]["environment"]
    assert set(settings) == {
        "WARPSMITH_HOME",
        "WARPSMITH_ARTIFACTS",
        "WARPSMITH_CACHE",
        "WARPSMITH_REDIS_URL",
    }
    assert "env_file" not in SERVICES[name]
    assert SERVICES[name]["networks"] == ["hints"]
    assert not any("home:" in volume for volume in SERVICES[name]["volumes"])


def test_only_the_sites_roles_reach_the_database():
    with_data = {name for name, service in SERVICES.items() if "data" in service["networks"]}
    assert with_data == {*SITE, "setup", "postgres"}


def test_only_the_web_role_is_reachable_from_outside():
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"web"}
    assert SERVICES["web"]["ports"] == ["127.0.0.1:8000:8000"]
    inner = {
        name for name, network in COMPOSE["networks"].items() if (network or {}).get("internal")
    }
    assert inner == {"data", "hints"}


@pytest.mark.parametrize("name", OURS)
def test_our_containers_are_read_only_and_hold_no_privilege(name: str):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")
    assert not service.get("cap_add")
    assert not any("docker.sock" in str(volume) for volume in service.get("volumes", []))


def test_docker_s_filters_are_off_only_where_a_sandbox_is_held():
    loose = {
        name
        for name, service in SERVICES.items()
        if "seccomp=unconfined" in service.get("security_opt", [])
    }
    assert loose == {"agent", *WORKERS}


def test_each_role_has_its_own_redis_user():
    def user(name: str) -> str:
        return SERVICES[name]["environment"]["WARPSMITH_REDIS_URL"].split("//")[1].split(":")[0]

    assert {name: user(name) for name in (*SITE, *WORKERS)} == {
        "web": "site",
        "recorder": "site",
        "agent": "site",
        "build-worker": "build",
        "device-worker": "device",
    }
    script = (REPOSITORY / "docker" / "redis-start.sh").read_text()
    assert "user default off" in script
    for worker in ("build", "device"):
        line = next(line for line in script.splitlines() if line.startswith(f"user {worker} "))
        assert "%W~web*" in line
        assert "~*" not in line.split()
        assert "resetchannels" in line


def test_every_secret_is_asked_for_and_listed_in_the_example():
    text = (REPOSITORY / "docker-compose.yml").read_text()
    asked = set(re.findall(r"\$\{([A-Z_]+)", text))
    example = (REPOSITORY / "docker" / "env.example").read_text()
    assert asked == set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE))
    secret = {name for name in asked if name.endswith(("PASSWORD", "KEY"))}
    assert secret == set(re.findall(r"\$\{([A-Z_]+):\?", text))


def test_commands_are_those_of_the_document():
    document = " ".join((REPOSITORY / "docs" / "processes.md").read_text().split())
    for name in (*SITE, *WORKERS):
        words = [word for word in SERVICES[name]["command"] if word not in ("0.0.0.0", "127.0.0.1")]
        command = " ".join(words[1:])
        assert command in document.replace("--host 127.0.0.1", "--host"), name


def test_the_start_script_of_redis_is_sound():
    subprocess.run(["sh", "-n", REPOSITORY / "docker" / "redis-start.sh"], check=True)


def test_the_image_recipe_copies_no_site_code_into_the_workers():
    recipe = (REPOSITORY / "docker" / "Dockerfile").read_text()
    worker = recipe.partition("AS worker")[2]
    copied = re.findall(r"^COPY (?!--from)(\S+)", worker, re.MULTILINE)
    assert copied == ["workers"]
    for source in re.findall(r"^COPY (?!--from)(.+?) \S+$", recipe, re.MULTILINE):
        assert (REPOSITORY / source).exists(), source
