"""Lines from a connection: in order, each once while nothing fails, and no faster than they are taken."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Configuration
from headrace.common.errors import BadRecordError, InvalidProgramError, InvalidTypeError
from headrace.connectors import socket as socket_connector
from headrace.connectors.socket import SocketSource
from headrace.connectors.source import Pending, ReadBudget
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from tests.connectors.harness import PLENTY, SourceRun
from tests.waiting import wait_for


class Server:
    """Accepts connections one after the other, and sends each of them what it has."""

    def __init__(self, *sent: bytes) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.accepted = 0
        self._sent = sent
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for content in self._sent:
            connection, _ = self._socket.accept()
            self.accepted += 1
            with connection:
                connection.sendall(content)
        self._socket.close()

    def source(self, **options: Any) -> SocketSource:
        return SocketSource("127.0.0.1", self.port, **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_connector, "_RETRY_SECONDS", 0.01)


@pytest.fixture
def run_of(tmp_path: Path) -> Iterator[Callable[[SocketSource], SourceRun]]:
    runs: list[SourceRun] = []

    def begin(source: SocketSource) -> SourceRun:
        runs.append(SourceRun(source, tmp_path))
        runs[-1].enumerator.discover(0)
        return runs[-1]

    yield begin
    for run in runs:
        run.enumerator.close()


def to_end(run: SourceRun, budget: ReadBudget = PLENTY) -> list[Any]:
    wait_for(lambda: run.epoch(budget) == 0 and run.is_finished())
    return run.rows


@pytest.mark.parametrize(
    ("sent", "options", "lines"),
    [
        (b"", {}, []),
        (b"a\nb\r\n\nlast", {}, ["a", "b", "", "last"]),
        ("tea ☕\nkäse\n".encode(), {}, ["tea ☕", "käse"]),
        (b"a;b\n;c", {"delimiter": ";"}, ["a", "b\n", "c"]),
        (b"xaaayaaz", {"delimiter": "aa"}, ["x", "ay", "z"]),
    ],
)
@pytest.mark.parametrize("budget", [PLENTY, ReadBudget(1, 10**6), ReadBudget(100, 3)])
def test_lines(sent: bytes, options: dict[str, Any], lines: list[str], budget: ReadBudget, run_of: Any) -> None:
    assert to_end(run_of(Server(sent).source(**options)), budget) == lines


def test_an_epoch_is_planned_again_from_where_it_began(run_of: Any) -> None:
    run = run_of(Server(b"1\n2\n3\n").source())
    wait_for(lambda: run.enumerator.pending("socket", 0, 0) == Pending(bytes=6))
    first = run.enumerator.plan("socket", 0, PLENTY, 0)
    assert run.enumerator.plan("socket", 0, ReadBudget(2, 100), 0).end == 4
    assert run.enumerator.plan("socket", 0, PLENTY, 0) == first
    run.enumerator.checkpoint_completed({"socket": 4})
    assert run.enumerator.plan("socket", 4, PLENTY, 0).pieces == ([4, "3\n"],)


def test_after_a_restart_positions_go_on(run_of: Any) -> None:
    run = run_of(Server(b"1\n2\n", b"3\n").source())
    wait_for(lambda: run.epoch(ReadBudget(1, 100)) == 1)
    run.restart()
    wait_for(lambda: run.epoch() == 1)
    assert run.rows == ["1", "3"], "what waited in the driver is lost"
    assert run.positions == {"socket": 4}


def test_it_connects_again_as_often_as_it_is_told(run_of: Any) -> None:
    server = Server(b"1\nhalf", b"2\n", b"3\n", b"4\n")
    assert to_end(run_of(server.source(max_retry=2))) == ["1", "half", "2", "3"]
    assert server.accepted == 3


def test_the_server_waits_while_nobody_takes_lines(run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_connector, "_MOST_BYTES", 1 << 17)
    lines = [f"{number:063}" for number in range(20_000)]
    run = run_of(Server("".join(f"{line}\n" for line in lines).encode()).source())
    largest = 0
    for _ in range(100_000):
        largest = max(largest, run.enumerator.pending("socket", run.positions.get("socket", 0), 0).bytes)
        if not run.epoch(ReadBudget(10**6, 1 << 16)) and run.is_finished():
            break
    assert run.rows == lines
    assert largest <= (1 << 17) + (1 << 16)


def test_a_line_without_an_end_is_an_error(run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_connector, "_MOST_BYTES", 1 << 10)
    run = run_of(Server(b"x" * 5_000).source())
    with pytest.raises(BadRecordError, match=r"there is no b'\\n' in 1024 bytes"):
        wait_for(lambda: run.epoch() == 1)


def test_bytes_that_are_no_text(run_of: Any) -> None:
    with pytest.raises(BadRecordError, match=r"127.0.0.1:\d+, line 2 from byte 0: not utf-8: byte 0xff at position 1"):
        to_end(run_of(Server(b"good\na\xff\n").source()))
    run = run_of(Server(b"good\na\xff\nbetter\n").source(dead_letter=OutputTag("bad")))
    assert to_end(run, ReadBudget(2, 10**6)) == ["good", "better"]
    assert [(raw, reason) for _, raw, reason in run.rejected] == [
        ("a\\xff", "not utf-8: byte 0xff at position 1, invalid start byte")
    ]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="a port is a number from 1 to 65535, not 0"):
        SocketSource("localhost", 0)
    with pytest.raises(InvalidProgramError, match="needs a delimiter"):
        SocketSource("localhost", 1, "")
    with pytest.raises(InvalidProgramError, match="not -2"):
        SocketSource("localhost", 1, max_retry=-2)
    with pytest.raises(InvalidTypeError, match="dead_letter takes an OutputTag, not 'bad'"):
        SocketSource("localhost", 1, dead_letter="bad")  # type: ignore[arg-type]


def environment(runtime: str) -> StreamExecutionEnvironment:
    settings = {"headrace.runtime": runtime, "parallelism.default": "2", "restart-strategy.type": "none"}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_job_reads_until_the_server_closes_the_connection(runtime: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("".join(f"{number} ☕\n" for number in range(1_000)).encode())
    lines = environment(runtime).socket_text_stream("127.0.0.1", server.port)
    with lines.map(lambda line: int(line.split()[0])).execute_and_collect() as found:
        assert list(found) == list(range(1_000))
    assert "source 'Socket Stream'" in caplog.text
    assert "cannot be read again" in caplog.text


def test_a_server_that_is_not_there_fails_the_job() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = environment("local")
    env.socket_text_stream("127.0.0.1", port).print()
    with pytest.raises(OSError, match=f"127.0.0.1:{port} cannot be read"):
        env.execute()
