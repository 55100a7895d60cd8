"""References to secrets in options.

``${env:NAME}``, ``${directory:/run/secrets:password}`` and ``${file:/etc/shop.properties:password}`` stand for secrets,
as for Kafka's configuration providers. Options keep the reference; the secret is looked up by the process that needs
it, when it does, and is no part of plans, of checkpoints or of what is shown.
"""

import os
import re
from pathlib import Path
from typing import Final

from headrace.common.errors import ConfigurationError

_REFERENCE: Final = re.compile(r"\$\{(env|file|directory):([^}]+)\}")


def has_reference(text: str) -> bool:
    """Return whether a text refers to a secret."""
    return _REFERENCE.search(text) is not None


def with_secrets(text: str, part_of: str) -> str:
    """A text with secrets in the place of what refers to them.

    Args:
        text: the text.
        part_of: what it is part of, for messages.

    Raises:
        ConfigurationError: when a secret is not there.
    """

    def found(reference: re.Match[str]) -> str:
        try:
            return _secret(*reference.groups())
        except (KeyError, OSError) as error:
            problem = "is not set" if isinstance(error, KeyError) else f"cannot be read: {error.strerror}"
            raise ConfigurationError(f"{reference[0]}, part of {part_of}, {problem}") from None

    return _REFERENCE.sub(found, text)


def _secret(kind: str, place: str) -> str:
    if kind == "env":
        return os.environ[place]
    path, _, name = place.rpartition(":")
    if kind == "directory":
        return Path(path, name).read_text().rstrip("\n")
    lines = (line.partition("=") for line in Path(path).read_text().splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}[name]
