"""Pages under /sessions/: the live session and its files."""

from __future__ import annotations

from django.urls import path

from webapp.studio import views

app_name = "studio"

urlpatterns = [
    path("<uuid:session_id>/", views.session, name="session"),
    path("<uuid:session_id>/files/", views.files, name="files"),
    path("<uuid:session_id>/stop/", views.stop, name="stop"),
]
