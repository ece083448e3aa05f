"""The ASGI entry: HTTP and WebSocket, with the table of sockets."""

from __future__ import annotations

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application
from django.urls import path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
_http = get_asgi_application()

# These need Django to be set up.
from webapp.common.checks import refuse_to_start_with_errors  # noqa: E402
from webapp.events.consumers import StreamConsumer  # noqa: E402

refuse_to_start_with_errors()

_sockets = [path("ws/streams/<uuid:stream_id>/", StreamConsumer.as_asgi())]

application = ProtocolTypeRouter(
    {
        "http": _http,
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(_sockets))),
    }
)
