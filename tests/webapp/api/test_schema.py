"""The OpenAPI document describes what there is, without warnings."""

from __future__ import annotations

import yaml
from django.core.management import call_command


def test_the_schema_is_made_without_a_warning(tmp_path, people, owner):
    file = tmp_path / "schema.yml"
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(file))
    schema = yaml.safe_load(file.read_text())
    assert {"/api/v1/problems", "/api/v1/sessions/{id}/events"} <= set(schema["paths"])
    assert schema["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_the_schema_is_served(owner):
    response = owner.get("schema/")
    assert response.status_code == 200
    assert b"openapi" in response.content
