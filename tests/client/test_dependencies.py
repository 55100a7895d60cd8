"""Modules, packages and archives that a program brings along, and the interpreter it asks for."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.dependencies import gather
from headrace.common import Configuration, Encoder, Types, WatermarkStrategy, archive_path
from headrace.common.errors import (
    ConfigurationError,
    InfrastructureError,
    InvalidProgramError,
    UnsupportedOperationError,
    UserFunctionError,
)
from headrace.common.job_files import CachedFile, cached_files
from headrace.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from headrace.runtime.task.dependencies import held_on_path, put_on_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local"
RUNTIMES = [LOCAL, pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture(autouse=True)
def path_as_before() -> Iterator[None]:
    """What one test brings along is not there for the next."""
    yield
    put_on_path([])


def environment(runtime: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"headrace.runtime": runtime, "parallelism.default": "1"})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def module(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def wheel(folder: Path, name: str, text: str) -> None:
    """A package as small as pip takes it."""
    folder.mkdir(exist_ok=True)
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", text)
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{about}/RECORD", "")


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_functions_import_what_was_added(runtime: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if runtime != LOCAL:
        request.getfixturevalue("spark")
    env = environment(runtime)
    env.add_python_file(str(module(tmp_path / "one", "added_rates", "RATE = 7\n")))
    module(tmp_path / "two" / "added_package", "__init__", "from added_package.inner import SHIFT\n")
    module(tmp_path / "two" / "added_package", "inner", "SHIFT = 100\n")
    env.add_python_file(str(tmp_path / "two"))
    with zipfile.ZipFile(tmp_path / "three.zip", "w") as file:
        file.writestr("added_scale.py", "SCALE = 1000\n")
    env.add_python_file(str(tmp_path / "three.zip"))
    with zipfile.ZipFile(tmp_path / "four.zip", "w") as file:
        file.writestr("folder/number.txt", "10000")
    env.add_python_archive(str(tmp_path / "four.zip"), "numbers")
    wheel(tmp_path / "packages", "required_numbers", "LAST = 100000\n")
    (tmp_path / "requirements.txt").write_text("required-numbers==1.0\n")
    env.set_python_requirements(str(tmp_path / "requirements.txt"), str(tmp_path / "packages"))

    def compute(number: int) -> int:
        from added_package import SHIFT  # type: ignore[import-not-found]
        from added_rates import RATE  # type: ignore[import-not-found]
        from added_scale import SCALE  # type: ignore[import-not-found]
        from required_numbers import LAST  # type: ignore[import-not-found]

        shipped = int((archive_path("numbers") / "folder" / "number.txt").read_text())
        assert Path("numbers/folder/number.txt").read_text() == str(shipped)
        return int(number * RATE + SHIFT + SCALE + shipped + LAST)

    keyed = env.from_sequence(1, 3).key_by(lambda number: 0, Types.INT()).map(compute, Types.LONG())
    assert sorted(keyed.execute_and_collect()) == [111_107, 111_114, 111_121]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_two_jobs_have_modules_of_one_name(runtime: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if runtime != LOCAL:
        request.getfixturevalue("spark")

    def which(number: int) -> str:
        import which_job  # type: ignore[import-not-found]

        return str(which_job.NAME)

    for name in ("first", "second"):
        env = environment(runtime)
        env.add_python_file(str(module(tmp_path / name, "which_job", f"NAME = {name!r}\n")))
        assert list(env.from_sequence(1, 1).map(which, Types.STRING()).execute_and_collect()) == [name]


def test_modules_of_a_job_that_runs_in_this_process_stay(tmp_path: Path) -> None:
    for job, name in (("one", "running"), ("one", "later"), ("two", "other"), ("three", "later")):
        module(tmp_path / job, name, f"JOB = {job!r}\n")
    one, two, three = (str(tmp_path / job) for job in ("one", "two", "three"))
    put_on_path([one])
    with held_on_path([one]):
        running = importlib.import_module("running")
        put_on_path([two])
        assert importlib.import_module("running") is running
        assert importlib.import_module("other").JOB == "two"
        assert importlib.import_module("later").JOB == "one"
        with pytest.raises(InvalidProgramError, match="has another module 'later': wait for its end, or run"):
            put_on_path([three])
    put_on_path([three])
    assert importlib.import_module("later").JOB == "three"
    assert "running" not in sys.modules


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_tasks_on_this_machine_find_modules_where_the_program_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working directory is another folder than the program's."""
    module(tmp_path / "program", "beside_the_program", "ONE = 1\n")
    with zipfile.ZipFile(tmp_path / "program.zip", "w") as file:
        file.writestr("in_the_program.py", "TEN = 10\n")
    for place in ("program", "program.zip"):
        monkeypatch.syspath_prepend(tmp_path / place)

    def add(number: int) -> int:
        from beside_the_program import ONE  # type: ignore[import-not-found]
        from in_the_program import TEN  # type: ignore[import-not-found]

        return int(number + ONE + TEN)

    added = environment("spark").from_sequence(1, 3).map(add, Types.LONG())
    assert sorted(added.execute_and_collect()) == [12, 13, 14]


@pytest.mark.parametrize(("step", "brought"), [("copy", "file"), ("unpack_archive", "archive")])
def test_a_full_disk_is_told(step: str, brought: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment(LOCAL)
    with zipfile.ZipFile(tmp_path / "rates.zip", "w") as file:
        file.writestr("rates.csv", "a,1")
    if brought == "file":
        env.register_cached_file(str(tmp_path / "rates.zip"), "rates")
    else:
        env.add_python_archive(str(tmp_path / "rates.zip"), "rates")

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, step, refuse)
    with pytest.raises(InfrastructureError, match=r"the job cannot write its temporary files, .* No space left"):
        list(env.from_sequence(1, 1).execute_and_collect())


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_functions_find_cached_files(runtime: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if runtime != LOCAL:
        request.getfixturevalue("spark")
    env = environment(runtime)
    (tmp_path / "rates, of today.txt").write_text("7")
    env.register_cached_file(str(tmp_path / "rates, of today.txt"), "rates")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "number.txt").write_text("100")
    env.register_cached_file(f"file://{tmp_path}/folder", "folder")
    (tmp_path / "program").write_text(f"#!{sys.executable}\nprint(1000)\n")
    env.register_cached_file(str(tmp_path / "program"), "program", executable=True)

    class Add(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            cache = runtime_context.get_distributed_cache()
            self.more = int(cache.get_file("rates").read_text())
            self.more += int((cache.get_file("folder") / "deep" / "number.txt").read_text())
            self.more += int(subprocess.check_output([str(cache.get_file("program"))]))

        def map(self, value: int) -> int:
            return value + self.more

    assert list(env.from_sequence(1, 2).map(Add(), Types.LONG()).execute_and_collect()) == [1108, 1109]


def test_cached_files_of_two_jobs_have_one_name(tmp_path: Path) -> None:
    class Read(MapFunction[int, str]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.path = runtime_context.get_distributed_cache().get_file("data")

        def map(self, value: int) -> str:
            return self.path.read_text()

    for text in ("first", "second"):
        env = environment(LOCAL)
        (tmp_path / text).write_text(text)
        env.register_cached_file(str(tmp_path / text), "data")
        assert list(env.from_sequence(1, 1).map(Read(), Types.STRING()).execute_and_collect()) == [text]


def test_a_file_that_was_not_registered_is_told(tmp_path: Path) -> None:
    class Read(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_distributed_cache().get_file("other")

        def map(self, value: int) -> int:
            return value

    env = environment(LOCAL)
    (tmp_path / "a").touch()
    env.register_cached_file(str(tmp_path / "a"), "data")
    with pytest.raises(UserFunctionError, match=r"no cached file 'other' here: register_cached_file\(\) .* for data"):
        list(env.from_sequence(1, 1).map(Read(), Types.LONG()).execute_and_collect())


@pytest.mark.parametrize(
    ("path", "name", "error", "message"),
    [
        ("a", "", InvalidProgramError, "name of a cached file"),
        ("a", "x/y", InvalidProgramError, "name of a cached file"),
        ("a", "..", InvalidProgramError, "name of a cached file"),
        ("a", "x;y", InvalidProgramError, "name of a cached file"),
        ("it's", "x", InvalidProgramError, "path of a cached file"),
        ("hdfs://host/a", "x", UnsupportedOperationError, "only files of the driver's machine"),
        ("a", "taken", ConfigurationError, "two files of the name 'taken'"),
    ],
)
def test_what_cannot_be_cached(path: str, name: str, error: type[Exception], message: str) -> None:
    env = environment(LOCAL)
    env.register_cached_file("somewhere", "taken")
    with pytest.raises(error, match=message):
        env.register_cached_file(path, name)
    env.from_sequence(1, 1).print()
    with pytest.raises(InvalidProgramError, match=r"register_cached_file: there is no file or folder .*somewhere"):
        env.execute()


@pytest.mark.parametrize(
    "text",
    [
        "name:a,path:'/x/y, z';name:b,path:/w,executable:true",
        "- name:a,path:'/x/y, z'\n- name:b, path:/w, executable:true",
    ],
)
def test_cached_files_as_a_setting(text: str) -> None:
    assert cached_files(text) == [CachedFile("a", "/x/y, z"), CachedFile("b", "/w", executable=True)]
    with pytest.raises(ConfigurationError, match="is not like name:rates"):
        cached_files(f"{text};path:/v")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_relative_paths_are_those_of_the_job(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Also where its checkpoints, its sink and its source have relative paths, and jobs without archives follow."""
    if runtime != LOCAL:
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("1\n2\n")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as file:
        file.writestr("number.txt", "10")
    here = _working_directory(runtime)
    env = environment(runtime)
    env.enable_checkpointing(1000)
    env.get_checkpoint_config().set_checkpoint_storage_dir("checkpoints")
    env.add_python_archive("data.zip", "data")

    class Add(MapFunction[str, str]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.more = int(Path("data/number.txt").read_text())

        def map(self, value: str) -> str:
            assert Path("data/number.txt").read_text() == "10"
            return str(int(value) + self.more)

        def close(self) -> None:
            assert Path("data").is_dir()

    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in.txt").build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    sink = FileSink.for_row_format("out", Encoder.simple_string_encoder())
    sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    lines.map(Add(), Types.STRING()).sink_to(sink.build())
    env.execute()
    assert [path.read_text() for path in (tmp_path / "out").iterdir() if path.is_file()] == ["11\n12\n"]
    assert (tmp_path / "checkpoints").is_dir()
    assert Path.cwd() == tmp_path
    assert _working_directory(runtime) == here


def _working_directory(runtime: str) -> list[str]:
    stream = environment(runtime).from_sequence(1, 1).map(lambda _: os.getcwd(), Types.STRING())
    return list(stream.execute_and_collect())


def test_without_it_the_import_fails() -> None:
    def compute(number: int) -> int:
        from added_rates import RATE

        return int(number * RATE)

    with pytest.raises(UserFunctionError, match="No module named 'added_rates'"):
        list(environment(LOCAL).from_sequence(1, 3).map(compute, Types.LONG()).execute_and_collect())


def test_the_driver_can_import_it_too(tmp_path: Path) -> None:
    """Sources look for splits in the driver, and sinks commit there."""
    gather(Configuration().set_string("python.files", str(module(tmp_path, "for_driver", "VALUE = 1\n"))))
    import for_driver  # type: ignore[import-not-found]

    assert for_driver.VALUE == 1


def test_the_same_files_are_shipped_once(tmp_path: Path) -> None:
    path = module(tmp_path, "again", "VALUE = 1\n")
    configuration = Configuration().set_string("python.files", str(path))
    first = gather(configuration)
    assert gather(configuration) == first
    path.write_text("VALUE = 2\n")
    assert gather(configuration) != first


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("python.files", "nowhere.py", "add_python_file: there is no file or folder .*nowhere.py"),
        ("python.files", "notes.txt", "add_python_file: notes.txt is neither a module"),
        ("python.files", "broken.zip", "add_python_file: broken.zip cannot be unpacked: "),
        ("python.files", "cut.zip", "add_python_file: cut.zip cannot be unpacked: "),
        ("python.archives", "broken.zip", "add_python_archive: .*broken.zip is no archive, or a damaged one"),
        ("python.archives", "broken.tar.gz", "add_python_archive: .*broken.tar.gz is no archive, or a damaged one"),
        ("python.archives", "nowhere.zip", "add_python_archive: there is no file .*nowhere.zip"),
        ("python.archives", "notes.txt", r"add_python_archive: .*notes.txt is not one of \.zip, "),
        ("python.archives", "data.zip#../up", "the target folder '../up' has to be a relative path"),
        ("python.requirements", "nowhere.txt", "set_python_requirements: there is no file or folder .*nowhere.txt"),
        ("python.requirements", "notes.txt#.", "(?s)pip could not install what notes.txt asks for.*no-such-package"),
    ],
)
def test_what_cannot_be_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("no-such-package-anywhere\n")
    shutil.make_archive("data", "zip", tmp_path, "notes.txt")
    data = (tmp_path / "data.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[20:])  # the list of what is in it is at the end
    for name in ("broken.zip", "broken.tar.gz"):
        (tmp_path / name).write_bytes(data[:20])
    env = environment(LOCAL)
    env.configure(Configuration().set_string(key, value))
    env.from_sequence(1, 3).print()
    with pytest.raises(InvalidProgramError, match=message):
        env.execute()


def test_an_archive_that_nobody_added() -> None:
    with pytest.raises(
        InvalidProgramError, match=r"there is no archive 'maps' here: add_python_archive\(\) was called"
    ):
        archive_path("maps")


def test_the_local_runtime_has_one_interpreter() -> None:
    for python, works in ((sys.executable, True), ("/usr/bin/false", False)):
        env = environment(LOCAL)
        env.set_python_executable(python)
        numbers = env.from_sequence(1, 1)
        if works:
            assert list(numbers.execute_and_collect()) == [1]
        else:
            with pytest.raises(ConfigurationError, match="the local runtime runs in the program's own process"):
                numbers.execute_and_collect()


def test_an_interpreter_without_a_name() -> None:
    env = environment(LOCAL)
    env.set_python_executable("")
    with pytest.raises(ConfigurationError, match=r"python\.executable is empty"):
        env.from_sequence(1, 1).execute_and_collect()


def test_an_interpreter_inside_an_archive(tmp_path: Path) -> None:
    env = environment("spark")
    env.add_python_archive(str(tmp_path / "env.zip"))
    env.set_python_executable("env.zip/bin/python")
    env.from_sequence(1, 1).print()
    with pytest.raises(ConfigurationError, match=r"lies in an archive .* spark\.archives and spark\.pyspark\.python"):
        env.execute()


@pytest.mark.spark
def test_a_running_session_keeps_its_interpreter(spark: SparkSession) -> None:
    env = environment("spark")
    env.set_python_executable("/opt/other/bin/python")
    env.from_sequence(1, 1).print()
    with pytest.raises(ConfigurationError, match=r"'/opt/other/bin/python', but the Spark session that is running has"):
        env.execute()
    same = environment("spark")
    same.set_python_executable(spark.sparkContext.pythonExec)
    assert list(same.from_sequence(1, 1).execute_and_collect()) == [1]
