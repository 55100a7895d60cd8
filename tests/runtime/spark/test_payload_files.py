"""Large payloads in files of this machine: what is read is what was written, at every attempt, and nothing stays."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types, options
from headrace.common.configuration import Configuration
from headrace.common.errors import InfrastructureError
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.exchange.envelope import Envelope, EnvelopeKind
from headrace.runtime.spark import runtime
from headrace.runtime.spark.shipping import (
    LEAST_BYTES,
    PayloadReader,
    PayloadWriter,
    files_in,
    make_folder,
    remove,
)
from tests.draws import draws
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 60_000
KEYS = 7


def written(folder: str, *payloads: bytes, stage: int = 3, partition: int = 1) -> list[bytes]:
    with PayloadWriter(folder, stage, partition) as writer:
        references = [writer.write(payload) for payload in payloads]
        writer.complete()
    return references


@settings(max_examples=draws(30), deadline=None)
@given(payloads=st.lists(st.binary(min_size=1, max_size=300), max_size=8), tasks=st.integers(1, 3))
def test_what_is_read_is_what_was_written(
    payloads: list[bytes], tasks: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = make_folder(str(tmp_path_factory.mktemp("payloads")))
    of_tasks = [written(folder, *payloads, partition=task) for task in range(tasks)]
    reader = PayloadReader(folder)
    for references in reversed(of_tasks):
        assert [reader.read(reference).to_pybytes() for reference in references] == payloads
    remove(files_in(folder))
    assert os.listdir(folder) == []


def test_payloads_are_aligned_and_outlive_their_file(tmp_path: Path) -> None:
    folder = make_folder(str(tmp_path))
    references = written(folder, b"a" * 100, b"b" * 1000)
    found = [PayloadReader(folder).read(reference) for reference in references]
    remove(files_in(folder))
    assert [payload.address % 64 for payload in found] == [0, 0]
    assert found[1].to_pybytes() == b"b" * 1000


def test_attempts_with_the_same_content_say_the_same_and_others_do_not(tmp_path: Path) -> None:
    folder = make_folder(str(tmp_path))
    first = written(folder, b"x" * 999, b"y")
    assert written(folder, b"x" * 999, b"y") == first
    assert written(folder, b"x" * 998 + b"z", b"y")[0] != first[0]


def test_an_attempt_that_fails_leaves_what_another_one_wrote(tmp_path: Path) -> None:
    folder = make_folder(str(tmp_path))
    (reference,) = written(folder, b"first")
    with PayloadWriter(folder, 3, 1) as writer:
        writer.write(b"second")  # and it ends without being complete
    assert os.listdir(folder) == ["3-1.payloads"]
    assert PayloadReader(folder).read(reference).to_pybytes() == b"first"


def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    folder = Path(make_folder(str(tmp_path)))
    written(str(folder), b"secret")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())] == [0o700, 0o600]


def test_a_file_that_is_gone_or_was_cut_is_an_error(tmp_path: Path) -> None:
    folder = make_folder(str(tmp_path))
    first, second = written(folder, b"a" * 64, b"b" * 64)
    os.truncate(Path(folder) / "3-1.payloads", 100)
    assert PayloadReader(folder).read(first).to_pybytes() == b"a" * 64
    with pytest.raises(InfrastructureError, match="64 bytes at 64 is not there"):
        PayloadReader(folder).read(second)
    remove(files_in(folder))
    with pytest.raises(FileNotFoundError):
        PayloadReader(folder).read(first)


def test_large_data_travels_by_a_file_and_all_else_by_spark(tmp_path: Path) -> None:
    folder = make_folder(str(tmp_path))
    large = b"x" * LEAST_BYTES
    envelopes = [
        Envelope(1, 0, 0, 5, 2, 7, number, kind, payload)
        for number, (kind, payload) in enumerate(
            [(EnvelopeKind.DATA, large), (EnvelopeKind.DATA, large[1:]), (EnvelopeKind.REPORT, large)]
        )
    ]
    with PayloadWriter(folder, 1, 0) as writer:
        sent = [writer.stored(envelope) for envelope in envelopes]
        writer.complete()
    assert [envelope.kind for envelope in sent] == [EnvelopeKind.STORED, EnvelopeKind.DATA, EnvelopeKind.REPORT]
    assert len(sent[0].payload) < 100
    reader = PayloadReader(folder)
    assert [reader.loaded(envelope) for envelope in sent[1:]] == envelopes[1:]
    assert reader.loaded(sent[0])[:-1] == envelopes[0][:-1]
    assert bytes(reader.loaded(sent[0]).payload) == large


def test_without_a_folder_all_goes_by_spark() -> None:
    envelope = Envelope(1, 0, 0, 5, 2, 7, 0, EnvelopeKind.DATA, b"x" * LEAST_BYTES)
    with PayloadWriter(None, 1, 0) as writer:
        assert writer.stored(envelope) is envelope
        writer.complete()


@pytest.mark.parametrize(
    ("here", "changed", "has_one"),
    [
        (True, {}, True),
        (True, {"spark.shuffle.compress": "false"}, True),
        (True, {"spark.shuffle.compress": "true"}, False),
        (True, {"spark.io.encryption.enabled": "true"}, False),
        (False, {}, False),
    ],
)
def test_who_has_what_is_shuffled_compressed_or_encrypted_or_elsewhere_has_it_by_spark(
    here: bool, changed: dict[str, str], has_one: bool, tmp_path: Path
) -> None:
    session = SimpleNamespace(sparkContext=SimpleNamespace(_temp_dir=str(tmp_path)), conf=changed)
    owner: Any = SimpleNamespace(_session=session, _tasks_run_here=here)
    folder = runtime.SparkRuntime._payload_folder(owner)
    assert (folder is not None) == has_one
    assert len(list(tmp_path.iterdir())) == has_one


def counted(spark: SparkSession, lost: Path | None = None) -> list[Any]:
    """How many records each key has; where ``lost`` does not exist, files are lost on their way, and ``lost`` made."""
    folder = Path(spark.sparkContext._temp_dir)

    def passing(number: int) -> int:
        if number == RECORDS and lost is not None and not lost.exists():
            deadline = time.monotonic() + PATIENCE
            while not (found := list(folder.glob("headrace-payloads-*/*-0.payloads"))):
                assert time.monotonic() < deadline, "the other task wrote no file"
                time.sleep(0.01)
            for file in (found[0], *found[0].parent.glob("job-*")):
                file.unlink()
            lost.touch()
        return number

    configuration = Configuration.from_dict({"headrace.runtime": "spark", "parallelism.default": "2"})
    configuration.set(options.EPOCH_FIRST_RECORDS, RECORDS)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    collected: list[Any] = []
    numbers = env.from_sequence(1, RECORDS).map(passing, Types.LONG())
    pairs = numbers.map(lambda number: (number % KEYS, 1), Types.TUPLE([Types.LONG(), Types.LONG()]))
    pairs.key_by(lambda pair: pair[0]).sum(1).sink_to(CollectSink(collected.extend))
    env.execute()
    return collected


def expected() -> dict[int, int]:
    return {key: len(range(key or KEYS, RECORDS + 1, KEYS)) for key in range(KEYS)}


@pytest.mark.spark
def test_a_job_goes_by_files_and_leaves_none(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []

    def recording(folder: str) -> list[Path]:
        used.extend(os.listdir(folder))
        return files_in(folder)

    monkeypatch.setattr(runtime, "files_in", recording)
    found = counted(spark)
    assert len(found) == RECORDS
    assert dict(found) == expected()
    assert used
    assert list(Path(spark.sparkContext._temp_dir).glob("headrace-payloads-*")) == []


@pytest.mark.spark
def test_an_epoch_whose_files_are_lost_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    found = counted(spark, lost)
    assert lost.exists()
    assert len(found) == RECORDS
    assert dict(found) == expected()
