"""Kafka's jars: fetched once from Maven Central, then kept in the user's cache."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common.durable import write_file
from headrace.common.errors import ConfigurationError, InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterator

KAFKA_VERSION: Final = "4.1.0"

_ENDPOINT: Final = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:1.7.36"
"""The broker, and what prints its log."""


def broker_jars(cache: Path) -> list[Path]:
    """The jars of a broker; the first time they are fetched, some 40 MB in one to two minutes.

    Args:
        cache: the folder that they are kept in; several processes may use it.

    Raises:
        ConfigurationError: when jgo, which fetches them, is not installed.
        InfrastructureError: when they cannot be fetched.
        OSError: when the folder cannot be written.
    """
    listing = cache / f"kafka-{KAFKA_VERSION}.txt"
    found = _listed(listing)
    if found:
        return found
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        found = _listed(listing)
        if not found:
            found = _fetched(cache / "jars")
            write_file(listing, ["\n".join(map(str, found)).encode()])
    return found


def _listed(listing: Path) -> list[Path]:
    """The jars that a listing names; none when it is not there, or one of them is not."""
    try:
        jars = [Path(line) for line in listing.read_text().splitlines()]
    except FileNotFoundError:
        return []
    return jars if all(jar.is_file() for jar in jars) else []


def _fetched(folder: Path) -> list[Path]:
    try:
        import jgo
    except ImportError:
        raise ConfigurationError(
            "a broker needs Kafka's jars, and a library that is not installed to fetch them: "
            "pip install 'headrace[kafka-broker]'"
        ) from None
    try:
        return [Path(jar) for jar in jgo.build(_ENDPOINT, update=True, cache_dir=folder).all_jars]
    except Exception as error:  # whatever a resolver and its client of HTTP raise
        raise InfrastructureError(
            f"Kafka {KAFKA_VERSION} cannot be fetched from Maven Central: {type(error).__name__}: {error}"
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
