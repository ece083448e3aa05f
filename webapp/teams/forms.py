"""The sign-in form."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.forms import AuthenticationForm


class SignInForm(AuthenticationForm):
    """Django's own, with one sentence for a wrong name or password."""

    error_messages: ClassVar = {
        "invalid_login": "This name and password do not belong together; check both and try again.",
        "inactive": "This account is switched off; ask an administrator of the site.",
    }
