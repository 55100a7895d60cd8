"""Starts the Java process of a session without telling everybody on the machine its settings.

PySpark puts settings on the command line of Java, which every user of the machine can read; passwords are among them
(of object stores, of a metastore). Here they travel in a file that only the user can read, and that is gone when Java
is up. What has to be an option of Java (``spark.driver.extraJavaOptions``) is on its command line all the same.
"""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common.durable import Permissions, write_file
from headrace.common.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
"""What PySpark gives to ``spark-submit`` when it starts Java."""

_SHELL: Final = "pyspark-shell"
_PROPERTIES_FILE: Final = "--properties-file"
_LOAD_DEFAULTS: Final = "--load-spark-defaults"

_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"})
_ESCAPED_IN_KEYS: Final = _ESCAPED | str.maketrans({character: f"\\{character}" for character in " =:#!"})


@dataclass(frozen=True, slots=True)
class SubmitArguments:
    """The arguments of ``spark-submit`` that the user has put into the environment.

    Attributes:
        others: all but the file of settings.
        properties_file: the file of settings, instead of which Spark would not read ``spark-defaults.conf``.
    """

    others: tuple[str, ...]
    properties_file: str | None

    @staticmethod
    def of(environment: Mapping[str, str]) -> SubmitArguments:
        """Those of an environment."""
        others: list[str] = []
        file = None
        arguments = iter(shlex.split(environment.get(SUBMIT_ARGUMENTS, _SHELL)))
        for argument in arguments:
            name, has_value, value = argument.partition("=")
            if name == _PROPERTIES_FILE:
                file = value if has_value else next(arguments, None)
            else:
                others.append(argument)
        return SubmitArguments(tuple(others), file)

    @property
    def reads_defaults(self) -> bool:
        """Whether ``spark-defaults.conf`` counts."""
        return self.properties_file is None or _LOAD_DEFAULTS in self.others

    def text(self) -> str:
        """What is in the user's file of settings."""
        return f"{Path(self.properties_file).read_text()}\n\n" if self.properties_file else ""

    def with_file(self, path: Path) -> str:
        """The same arguments with a file of ours, which holds what is in the user's, too."""
        options = [_PROPERTIES_FILE, str(path)]
        if self.reads_defaults and _LOAD_DEFAULTS not in self.others:
            options.append(_LOAD_DEFAULTS)
        return shlex.join([*options, *self.others])


@contextmanager
def settings_by_file(settings: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Settings in a file that Java reads when it is started meanwhile.

    Args:
        settings: what Java is to be told; wins over the user's own file.
        environment: that of this process.

    Yields:
        The environment variables to start Java with.
    """
    arguments = SubmitArguments.of(environment)
    folder = TemporaryFolder("spark-")
    try:
        file = folder.path / "spark.properties"
        text = arguments.text() + properties_text(settings)  # the last one of a key counts
        write_file(file, (text.encode(),), Permissions.OWNER)
        yield {SUBMIT_ARGUMENTS: arguments.with_file(file)}
    finally:
        folder.remove()


def properties_text(settings: Mapping[str, str]) -> str:
    """Settings in the words of Java's property files."""
    return "".join(f"{key.translate(_ESCAPED_IN_KEYS)}={_value(value)}\n" for key, value in settings.items())


def _value(text: str) -> str:
    escaped = text.translate(_ESCAPED)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
