"""All HTTP addresses."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from webapp.common.health import health

handler400 = "webapp.common.too_large.refuse"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("webapp.api.urls")),
    path("accounts/", include("webapp.teams.urls")),
    path("evaluations/", include("webapp.studio.verdict_urls")),
    path("sessions/", include("webapp.studio.urls")),
    path("sessions/", include("webapp.exports.urls")),
    path("healthz", health),
    path("", include("webapp.studio.problem_urls")),
]
