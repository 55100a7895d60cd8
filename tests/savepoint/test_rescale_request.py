"""``headrace rescale``: another process has a job go on at another parallelism."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from headrace.cli.main import app
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records


def headrace(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_a_job_is_rescaled_from_outside(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a", dict.fromkeys(range(20), 1))
    client = start(place, "job", 1)
    wait_for_records(client, 20)
    for count, parallelism in enumerate((4, 3), start=2):
        code, shown = headrace("rescale", str(tmp_path / "job"), "-p", str(parallelism))
        assert (code, shown.strip()) == (0, f"the job goes on at parallelism {parallelism}")
        place.write(f"b{count}", dict.fromkeys(range(20), 1))
        wait_for_records(client, 20 * count)
    code, shown = headrace("rescale", str(tmp_path / "job"), "-p", "1000")
    assert code == 1
    assert "1000" in shown
    client.stop_with_savepoint(False).result(DEADLINE)
    assert place.totals("out-job") == {f"k{key}": 3 for key in range(20)}
    code, shown = headrace("rescale", str(tmp_path / "job"), "-p", "2", "--timeout", "0.3")
    assert code == 1
    assert "no job has taken the request within 0.3 s" in shown, "when it has ended"


def test_where_no_job_has_begun_it_is_told(tmp_path: Path) -> None:
    code, shown = headrace("rescale", str(tmp_path), "-p", "2", "--timeout", "0.3")
    assert code == 1
    assert "is no checkpoint directory: no job has begun there" in shown
