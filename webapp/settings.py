"""Settings of the site: the only reader of the environment on this side.

Everything works without a variable set: SQLite, a Redis socket and all files lie in WARPSMITH_HOME
(`var` beside this package when unset). docs/settings.md lists the variables.
"""

from __future__ import annotations

import os
from pathlib import Path

from webapp.common.environment import Environment
from webapp.common.secret_key import kept_secret_key
from workers.evaluation.config import desk_settings
from workers.redis_url import broker_url, default_redis_url

BASE_DIR = Path(__file__).resolve().parent.parent

_environment = Environment(os.environ)
SETTINGS_PROBLEMS = _environment.problems

# Places -------------------------------------------------------------------------------------------

HOME = _environment.folder("WARPSMITH_HOME", BASE_DIR / "var")
ARTIFACTS = _environment.folder("WARPSMITH_ARTIFACTS", HOME / "artifacts")
SHELLS = desk_settings(_environment.workers())

# Who may come -------------------------------------------------------------------------------------

DEBUG = _environment.flag("WARPSMITH_DEBUG")
SECRET_KEY = _environment.text("WARPSMITH_SECRET_KEY") or kept_secret_key(HOME)
HOSTS = _environment.names("WARPSMITH_HOSTS")
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *HOSTS]
CSRF_TRUSTED_ORIGINS = _environment.names("WARPSMITH_ORIGINS")

HTTPS = _environment.flag("WARPSMITH_HTTPS")
SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = "warpsmith_session"
CSRF_COOKIE_NAME = "warpsmith_csrf"
CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"

ADMIN_PASSWORD = _environment.text("WARPSMITH_ADMIN_PASSWORD")
"""Of the first user; read by `manage.py bootstrap` alone."""

AUTH_USER_MODEL = "teams.User"
LOGIN_URL = "teams:login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/accounts/login/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

# The largest upload is a problem or a snapshot of 8 MiB, written as JSON.
DATA_UPLOAD_MAX_MEMORY_SIZE = 12 << 20
DATA_UPLOAD_MAX_NUMBER_FILES = 20

# What runs ----------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "webapp.common",
    "webapp.teams",
    "webapp.events",
    "webapp.problems",
    "webapp.evaluations",
    "webapp.studio",
    "webapp.exports",
    "webapp.api",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "webapp.common.security.ContentSecurityPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "webapp.urls"
ASGI_APPLICATION = "webapp.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.common.site_notice.judging",
            ],
        },
    },
]

# Database -----------------------------------------------------------------------------------------

DATABASES = {"default": _environment.database("WARPSMITH_DATABASE_URL", HOME)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Redis: hints and bells, never the only copy of anything -------------------------------------------

REDIS_URL = _environment.text("WARPSMITH_REDIS_URL", default_redis_url(HOME))
BROKER_URL = broker_url(REDIS_URL)
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "warpsmith"},
    },
}

# Language and time --------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

# Static files -------------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = _environment.folder("WARPSMITH_STATIC", HOME / "static")
STATICFILES_DIRS = [BASE_DIR / "static"]
# With WARPSMITH_DEBUG files are served from where they are edited; else `collectstatic` comes first.
WHITENOISE_USE_FINDERS = DEBUG
WHITENOISE_AUTOREFRESH = DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "webapp.common.static_storage.HashedStaticFiles"
    },
}

# REST ---------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "webapp.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["webapp.api.parsing.CarefulJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "webapp.api.problem_json.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Warpsmith",
    "DESCRIPTION": "Upload a PyTorch model, let an agent write its kernels, follow it, take the result home.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "COMPONENT_SPLIT_REQUEST": True,
    "DISABLE_ERRORS_AND_WARNINGS": False,
}

# Admin --------------------------------------------------------------------------------------------

UNFOLD = {
    "SITE_TITLE": "Warpsmith",
    "SITE_HEADER": "Warpsmith",
    "SITE_URL": "/",
    "SHOW_VIEW_ON_SITE": True,
}

# Logging ------------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        # A Redis that is away is told once by our own bells, not each second with a stack.
        "channels_redis": {"level": "CRITICAL"},
    },
}
