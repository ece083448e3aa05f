"""The site's REST API, as far as the commands here use it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from launch.console import LaunchError

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Client:
    """A site and a token."""

    url: str
    token: str

    def get(self, path: str, timeout_s: float = 30) -> JsonObject:
        return self._json("GET", path, None, timeout_s)

    def post(self, path: str, body: JsonObject) -> JsonObject:
        return self._json("POST", path, body, 30)

    def download(self, path: str, timeout_s: float = 60) -> tuple[str, bytes]:
        """A file: its name and bytes."""
        content, headers = self._request("GET", path, None, timeout_s)
        disposition = headers.get("Content-Disposition", "")
        name = disposition.rpartition("filename=")[2].strip('"').rpartition("/")[2]
        return name or "download.zip", content

    def _json(
        self, method: str, path: str, body: JsonObject | None, timeout_s: float
    ) -> JsonObject:
        content, _ = self._request(method, path, body, timeout_s)
        try:
            data = json.loads(content)
        except ValueError as error:
            raise LaunchError(f"{method} {path} did not answer with JSON.") from error
        if not isinstance(data, dict):
            raise LaunchError(f"{method} {path} answered with something else than an object.")
        return data

    def _request(
        self, method: str, path: str, body: JsonObject | None, timeout_s: float
    ) -> tuple[bytes, dict[str, str]]:
        request = urllib.request.Request(  # noqa: S310 - the address is the user's own site
            f"{self.url.rstrip('/')}/api/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "Accept": "*/*",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
                return answer.read(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            raise LaunchError(f"{method} {path}: {_explain(error)}") from error
        except OSError as error:
            raise LaunchError(
                f"{method} {path}: the site at {self.url} does not answer."
            ) from error


def _explain(error: urllib.error.HTTPError) -> str:
    """The sentence of a problem+json answer, else the status."""
    try:
        data = json.loads(error.read())
        return str(data.get("detail") or data.get("title") or error.reason)
    except (ValueError, AttributeError):
        return f"{error.code} {error.reason}"
