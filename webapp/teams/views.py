"""Signing in and out."""

from __future__ import annotations

from django.contrib.auth import login
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.teams.forms import SignInForm
from webapp.teams.services import redeem_entry_link


class SignIn(LoginView):
    """Name and password."""

    template_name = "teams/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True


@require_GET
@never_cache
def enter(request: HttpRequest, token: str) -> HttpResponse:
    """Sign in by a one-time link; one that has done its work leads on whoever is signed in already."""
    user = redeem_entry_link(token)
    if user is None and request.user.is_authenticated:
        return redirect("problems:list")
    if user is None:
        return render(request, "teams/entry_used.html", status=410)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("problems:list")
