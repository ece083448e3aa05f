"""Pages under /accounts/: signing in and out, one-time links."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from webapp.teams.views import SignIn, enter

app_name = "teams"

urlpatterns = [
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("enter/<str:token>/", enter, name="enter"),
]
