"""Names of an export: they come from the problem's title and the digest of the verified snapshot."""

from __future__ import annotations

import keyword
import re
import unicodedata
from dataclasses import dataclass

from workers.protocol.problem import Target

VERSION = "1.0"


@dataclass(frozen=True)
class Names:
    """All names of one export. `build` is the first seven digits of the snapshot's digest."""

    slug: str
    target: Target
    build: str

    @property
    def package(self) -> str:
        """Import name, the same for each build of a model, so that users keep their code."""
        return f"{self.slug}_{self.target}"

    @property
    def distribution(self) -> str:
        return self.package.replace("_", "-")

    @property
    def version(self) -> str:
        return f"{VERSION}+g{self.build}"

    @property
    def namespace(self) -> str:
        """Namespace in torch.ops, different for each build, so that two can live in one process."""
        return f"_{self.slug}_{self.target}_{self.build}"

    @property
    def folder(self) -> str:
        return f"{self.distribution}-{self.version}"

    @property
    def filename(self) -> str:
        return f"{self.folder}-src.zip"


def names_for(title: str, target: Target, snapshot: str) -> Names:
    """Names for a problem's title and a snapshot's digest."""
    ascii_title = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "_", ascii_title).strip("_")[:40].rstrip("_")
    if not slug or slug[0].isdigit() or keyword.iskeyword(slug):
        slug = f"model_{slug}".rstrip("_")
    return Names(slug, target, snapshot[:7])
