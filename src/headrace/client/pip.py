"""Has pip put packages into a folder."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_QUIETLY: Final = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-compile")


def install(listing: str, folder: Path, asked_by: str, options: Sequence[str] = (), python: str | None = None) -> None:
    """Install what a file of requirements lists.

    Args:
        listing: the file.
        folder: where the packages go; made where nothing is required, too.
        asked_by: who wants them, for an error.
        options: more options of ``pip install``.
        python: the interpreter whose pip does it, and for which packages are chosen; this one when left out.

    Raises:
        InvalidProgramError: when pip cannot install them; the message holds what pip says.
    """
    command = [python or sys.executable, "-m", "pip", "install", *_QUIETLY, "--target", str(folder)]
    done = subprocess.run([*command, "--requirement", listing, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InvalidProgramError(f"{asked_by}: pip could not install what {listing} asks for\n{done.stderr.strip()}")
    folder.mkdir(exist_ok=True)
