"""Static files under names that hold a hash of their content, so that browsers may keep them for ever."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedStaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Rewrites `import` lines in JS modules too; without it a page's module would import a stale neighbour."""

    support_js_module_import_aggregation = True
