"""The archive of Java's classes: when it is taken, refused, made; and that a session starts with it, or without."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.submission import open_runtime
from headrace.common.configuration import Configuration
from headrace.common.java import JavaRuntime
from headrace.runtime.spark import class_archive, session, session_start
from headrace.runtime.spark.class_archive import ClassArchive
from headrace.runtime.spark.session_start import SessionStart
from tests.waiting import PATIENCE

JAVA = JavaRuntime(Path("/opt/java"), 17, "test", "17.0.15+6")


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core.jar").write_bytes(b"classes")
    return tmp_path / "spark"


def archive_of(tmp_path: Path, spark_home: Path, java: JavaRuntime = JAVA, **environment: str) -> ClassArchive | None:
    return ClassArchive.of(java, spark_home, {"XDG_CACHE_HOME": str(tmp_path / "cache"), **environment})


def made(tmp_path: Path, spark_home: Path, content: bytes = b"archive") -> tuple[ClassArchive, Path]:
    archive = archive_of(tmp_path, spark_home)
    assert archive is not None
    assert archive.begin_making()
    file = archive.folder / "unfinished.jsa"
    file.write_bytes(content)
    return archive, archive.adopt(file)


def test_an_archive_is_found_once_it_is_made(tmp_path: Path, spark_home: Path) -> None:
    archive = archive_of(tmp_path, spark_home)
    assert archive is not None
    assert archive.find() is None

    archive, file = made(tmp_path, spark_home)

    assert archive.find() == file
    assert not archive.begin_making(), "a program that was started before it was there"
    assert file.read_bytes() == b"archive"
    assert archive_of(tmp_path, spark_home) == archive


@pytest.mark.parametrize("content", [b"", b"arch", b"archivf", b"archive and more"])
def test_a_damaged_archive_is_removed_and_may_be_made_again(
    tmp_path: Path, spark_home: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    archive, file = made(tmp_path, spark_home)
    file.write_bytes(content)

    assert archive.find() is None
    assert not file.exists()
    assert "is damaged" in caplog.text
    assert archive.begin_making()


def test_another_java_or_other_jars_need_another_archive(tmp_path: Path, spark_home: Path) -> None:
    made(tmp_path, spark_home)
    newer = archive_of(tmp_path, spark_home, JavaRuntime(JAVA.home, 17, "test", "17.0.16+8"))
    assert newer is not None
    assert newer.find() is None

    (spark_home / "jars" / "another.jar").write_bytes(b"")
    grown = archive_of(tmp_path, spark_home)
    assert grown is not None
    assert grown.find() is None


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"])
def test_there_is_none_where_folders_are_on_the_class_path(tmp_path: Path, spark_home: Path, name: str) -> None:
    assert archive_of(tmp_path, spark_home, **{name: str(tmp_path)}) is None
    assert archive_of(tmp_path, spark_home, **{name: ""}) is not None
    (spark_home / "conf").mkdir()
    assert archive_of(tmp_path, spark_home) is None


def test_what_others_can_write_to_is_not_used(tmp_path: Path, spark_home: Path) -> None:
    archive, file = made(tmp_path, spark_home)
    archive.folder.chmod(0o770)

    assert archive.find() is None
    assert not archive.begin_making()
    assert file.exists()


def test_one_that_is_part_of_an_image_is_used(
    tmp_path: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, file = made(tmp_path, spark_home)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "belongs to somebody else")

    monkeypatch.setattr(class_archive.os, "utime", refuse)
    monkeypatch.setattr(class_archive.os, "getuid", lambda: file.stat().st_uid + 1)
    assert archive.find() == (file if file.stat().st_uid == 0 else None)
    monkeypatch.undo()
    monkeypatch.setattr(class_archive.os, "utime", refuse)
    assert archive.find() == file


def test_it_is_made_by_one_process_and_tried_once_a_day(tmp_path: Path, spark_home: Path) -> None:
    archive = archive_of(tmp_path, spark_home)
    assert archive is not None
    assert archive.begin_making()
    assert not archive.begin_making()

    yesterday = time.time() - 25 * 3600
    os.utime(archive.folder / "making.log", (yesterday, yesterday))
    assert archive.begin_making()


def test_of_two_that_find_an_attempt_of_yesterday_one_makes_it(
    tmp_path: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(tmp_path, spark_home)
    assert archive is not None
    assert archive.begin_making()
    yesterday = time.time() - 25 * 3600
    os.utime(archive.folder / "making.log", (yesterday, yesterday))
    others: list[bool] = []
    remove = Path.unlink

    def remove_after_another_has_looked(path: Path, missing_ok: bool = False) -> None:
        monkeypatch.setattr(Path, "unlink", remove)
        others.append(archive.begin_making())
        remove(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", remove_after_another_has_looked)
    assert archive.begin_making()
    assert others == [False]


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path, spark_home: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    archive = archive_of(tmp_path, spark_home)
    assert archive is not None
    assert archive.find() is None
    assert not archive.begin_making()
    archive.make_in_background()


@pytest.mark.parametrize("home", [{}, {"HOME": ""}])
def test_a_user_without_a_home_has_no_archive(
    spark_home: Path, home: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    caplog.set_level("INFO")
    monkeypatch.setattr(Path, "home", nobody)
    assert ClassArchive.of(JAVA, spark_home, home) is None
    assert "the user has no home" in caplog.text


def test_the_cache_does_not_follow_the_working_directory(
    tmp_path: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive is looked for when a session starts, and made from another folder when the program ends."""
    monkeypatch.chdir(tmp_path)
    for environment in ({"HOME": "home"}, {"HOME": "home", "XDG_CACHE_HOME": "cache"}):
        archive = ClassArchive.of(JAVA, spark_home, environment)
        assert archive is not None
        assert archive.folder.is_relative_to(tmp_path / "home" / ".cache")


def test_a_program_that_ends_says_nothing_of_the_making(
    tmp_path: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(tmp_path, spark_home)
    assert archive is not None
    monkeypatch.setattr(class_archive.sys, "executable", "/bin/true")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        archive.make_in_background()
        gc.collect()
    assert said == []

    (archive.folder / "making.log").unlink()
    monkeypatch.setattr(ClassArchive, "begin_making", lambda self: True)
    archive.folder.rmdir()
    archive.make_in_background()  # the folder went in between: nothing is raised
    assert not archive.folder.exists()


@pytest.mark.slow
def test_what_takes_too_long_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    program = """
import subprocess, sys
from pathlib import Path
from headrace.runtime.spark import class_training
class_training._ALL_SECONDS = 0.5
class_training._train = lambda _: subprocess.run(["sleep", "600"], check=True)
class_training.main(Path(sys.argv[1]))
"""
    # Its output ends when all processes are gone that have it.
    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, check=False, timeout=PATIENCE
    )
    assert ended.returncode == -signal.SIGKILL


def test_archives_out_of_use_are_removed_when_another_is_made(tmp_path: Path, spark_home: Path) -> None:
    old, file = made(tmp_path, spark_home)
    recent = archive_of(tmp_path, spark_home, JavaRuntime(JAVA.home, 21, "test", "21"))
    assert recent is not None
    assert recent.begin_making()
    month_ago = time.time() - 31 * 24 * 3600
    os.utime(old.folder, (month_ago, month_ago))
    (spark_home / "jars" / "another.jar").write_bytes(b"")

    made(tmp_path, spark_home)

    assert not file.exists()
    assert recent.folder.exists()


def test_the_ten_that_were_used_last_are_kept(tmp_path: Path, spark_home: Path) -> None:
    files = []
    for number in range(11):
        (spark_home / "jars" / f"{number}.jar").write_bytes(b"")
        archive, file = made(tmp_path, spark_home)
        files.append(file)
        used = time.time() - (600 if number == 2 else 60)
        os.utime(archive.folder, (used, used))

    (spark_home / "jars" / "another.jar").write_bytes(b"")
    made(tmp_path, spark_home)

    assert [file.exists() for file in files].count(True) == 9
    assert not files[2].exists()


def test_a_process_of_its_own_makes_it(tmp_path: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[list[str], dict[str, Any]]] = []

    def start(command: list[str], **how: Any) -> SimpleNamespace:
        commands.append((command, how))
        return SimpleNamespace()

    monkeypatch.setattr(class_archive.subprocess, "Popen", start)
    archive = archive_of(tmp_path, spark_home)
    assert archive is not None

    archive.make_in_background()
    archive.make_in_background()

    ((command, how),) = commands
    assert command == [sys.executable, "-m", "headrace.runtime.spark.class_training", str(archive.folder)]
    assert how["start_new_session"]
    assert how["env"]["TMPDIR"] == str(archive.folder), "the program's may go with the program"


@pytest.mark.parametrize(
    ("uses", "user_options", "found", "expected"),
    [
        (True, "", True, "-XX:SharedArchiveFile=/archive"),
        (True, "", False, ""),
        (False, "", True, ""),
        (True, "-XX:+UseG1GC", True, ""),
    ],
)
def test_java_is_told_of_it_unless_the_user_tunes_java_or_forbids_it(
    monkeypatch: pytest.MonkeyPatch, uses: bool, user_options: str, found: bool, expected: str
) -> None:
    started: list[SessionStart] = []
    later: list[object] = []
    archive = ClassArchive(Path("/nowhere"))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setattr(session, "running_session", lambda: None)
    monkeypatch.setattr(session, "_start", lambda start, *_: started.append(start))
    monkeypatch.setattr(session_start, "find_java", lambda environment, bundled: JAVA)
    monkeypatch.setattr(session.atexit, "register", later.append)
    monkeypatch.setattr(ClassArchive, "of", staticmethod(lambda java, spark_home, environment: archive))
    monkeypatch.setattr(ClassArchive, "find", lambda self: Path("/archive") if found else None)

    settings = {"spark.driver.extraJavaOptions": user_options} if user_options else {}
    session.acquire_session(settings, master="local[1]", uses_class_archive=uses)

    (start,) = started
    options = [word for word in start.settings.get("spark.driver.defaultJavaOptions", "").split() if "Archive" in word]
    assert " ".join(options) == expected
    assert later == ([archive.make_in_background] if uses and not found else [])


def test_the_option_reaches_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    class Told(Exception):
        pass

    def acquire(settings: Any, master: Any, python: Any, *, uses_class_archive: bool, **_: Any) -> None:
        asked.append(uses_class_archive)
        raise Told

    monkeypatch.setattr(session, "acquire_session", acquire)
    for value in ("true", "false"):
        with pytest.raises(Told):
            open_runtime(Configuration.from_dict({"headrace.spark.class-archive": value}))
    assert asked == [True, False]


SESSION = """
import sys
from pathlib import Path
from headrace.runtime.spark.session import acquire_session
from pyspark import SparkContext
handle = acquire_session({}, master="local[1]")
maps = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()
print({line.split(maxsplit=5)[-1] for line in maps.splitlines() if line.endswith(".jsa") and "headrace" in line})
print(handle.session.range(3).count())
handle.stop()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at what Java has mapped")
def test_a_session_starts_from_the_archive_and_without_a_damaged_one(tmp_path: Path) -> None:
    cache = tmp_path / "with a space"
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}

    def run() -> list[str]:
        done = subprocess.run([sys.executable, "-c", SESSION], env=environment, capture_output=True, check=True)
        return done.stdout.decode().splitlines()

    def wait_for(pattern: str) -> Path:
        end = time.monotonic() + 900
        while not (found := list(cache.glob(f"headrace/classes/*/{pattern}"))):
            assert time.monotonic() < end, f"no {pattern} has been made"
            time.sleep(1)
        return found[0]

    assert run() == ["set()", "3"]
    archive = wait_for("classes-*.jsa")
    assert run() == [str({str(archive)}), "3"]

    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.seek(archive.stat().st_size // 2)
        file.write(b"damage")
    assert run() == ["set()", "3"]
    again = wait_for("classes-*.jsa")
    assert run() == [str({str(again)}), "3"]
