"""The files of the pages: style sheet, scripts, icon, and the two libraries that are vendored with their licences."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

_NAMES: Final = (
    "dashboard.css",
    "dashboard.js",
    "theme.js",
    "icon.svg",
    "vendor/htmx.min.js",
    "vendor/uPlot.iife.min.js",
    "vendor/uPlot.min.css",
)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the pages.

    Attributes:
        content: its bytes.
        media_type: what they are.
        address: where they are served; another one when they change.
    """

    content: bytes
    media_type: str
    address: str


def _read(path: str) -> StaticFile:
    content, name = files(__package__).joinpath("static", path).read_bytes(), path.rpartition("/")[2]
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return StaticFile(content, _MEDIA_TYPES[name.rpartition(".")[2]], f"/dashboard/static/{digest}/{name}")


STATIC: Final = {path.rpartition("/")[2]: _read(path) for path in _NAMES}
"""By name."""
