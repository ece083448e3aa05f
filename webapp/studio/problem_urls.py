"""Pages under / and /problems/. They live above the app problems, because they show sessions and verdicts."""

from __future__ import annotations

from django.urls import path

from webapp.studio import problem_views as views

app_name = "problems"

urlpatterns = [
    path("", views.problems, name="list"),
    path("problems/new/", views.new_problem, name="new"),
    path("problems/<uuid:problem_id>/", views.problem, name="detail"),
    path("problems/<uuid:problem_id>/check/", views.check, name="check"),
    path("problems/<uuid:problem_id>/optimise/", views.optimise, name="optimise"),
]
