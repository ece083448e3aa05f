"""Every admin page opens for staff and for nobody else."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from webapp.api.tokens import make_token
from webapp.studio.services import create_session
from webapp.teams.models import User

MODELS = [f"{m._meta.app_label}_{m._meta.model_name}" for m in admin.site._registry]


@pytest.fixture
def staff(people, problem) -> Client:
    create_session(people.owner, problem)
    make_token(people.owner, "x")
    user = User.objects.create_superuser("root", password="root-password")
    client = Client()
    client.force_login(user)
    return client


def test_every_list_opens(staff):
    assert len(MODELS) >= 8
    for name in MODELS:
        assert staff.get(reverse(f"admin:{name}_changelist")).status_code == 200, name


def test_every_row_opens(staff):
    for model in admin.site._registry:
        row = model._default_manager.first()
        if row is not None:
            name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"
            assert staff.get(reverse(name, args=[row.pk])).status_code == 200, name


def test_members_stay_outside(people):
    client = Client()
    client.force_login(people.owner)
    assert client.get("/admin/").status_code == 302


def test_staff_can_stop_a_session(staff, problem):
    session = problem.sessions.get()
    address = reverse("admin:studio_session_changelist")
    staff.post(address, {"action": "stop", "_selected_action": [str(session.pk)]})
    session.refresh_from_db()
    assert (session.state, session.reason) == ("stopped", "At root's request.")
