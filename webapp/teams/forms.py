"""The sign-in form."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm


class SignInForm(AuthenticationForm):
    """Django's own, with one sentence for a wrong name or password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.error_messages = {
            "invalid_login": "This name and password do not belong together; check both and try again.",
            "inactive": "This account is switched off; ask an administrator of the site.",
        }
