"""Golden checkpoints and savepoints: directories as earlier versions have left them, each in an archive."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Final

ARCHIVES: Final = Path(__file__).parent / "archives"
MOST_BYTES: Final = 200_000

_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)


def pack(directory: Path, name: str) -> Path:
    """Keep a directory; the same content always gives the same bytes."""
    archive = ARCHIVES / f"{name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            packed.writestr(zipfile.ZipInfo(str(path.relative_to(directory)), _NO_TIME), path.read_bytes(), 8)
    assert archive.stat().st_size < MOST_BYTES, f"{archive} has {archive.stat().st_size} bytes"
    return archive


def unpack(name: str, target: Path) -> Path:
    """The directory that was kept under a name, with the folders that were empty in it.

    Of a native savepoint that is the savepoint: it is told where the directory of its job is now, beside it.
    """
    with zipfile.ZipFile(ARCHIVES / f"{name}.zip") as packed:
        packed.extractall(target)
    if (target / "manifests").exists():
        (target / "state").mkdir(exist_ok=True)
    if not name.endswith("-native"):
        return target
    _refer_to(target / "job", target / "savepoint" / "_metadata.json")
    return target / "savepoint"


def _refer_to(directory: Path, metadata: Path) -> None:
    """Nothing else of the metadata is read, so that it stays as the earlier version has written it."""
    document = json.loads(metadata.read_bytes()) | {"directory": str(directory)}
    del document["checksum"]
    checksum = zlib.crc32(json.dumps(document, separators=(",", ":")).encode())
    metadata.write_text(json.dumps({**document, "checksum": f"{checksum:08x}"}))
