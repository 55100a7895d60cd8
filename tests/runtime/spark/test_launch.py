"""How the settings of a session reach Java: by a file, together with what the user has told Spark."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

import pytest

from headrace.runtime.spark.session_start import SUBMIT_ARGUMENTS, SubmitArguments, properties_text, settings_by_file


def test_the_file_is_the_users_alone_and_goes(tmp_path: Path) -> None:
    with settings_by_file({"spark.secret": "s3cret"}, {}) as variables:
        arguments = shlex.split(variables[SUBMIT_ARGUMENTS])
        assert arguments[0] == "--properties-file"
        file = Path(arguments[1])
        assert arguments[2:] == ["--load-spark-defaults", "pyspark-shell"]
        assert file.read_text() == "spark.secret=s3cret\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not file.parent.exists()


def test_it_goes_when_java_does_not_start() -> None:
    files = []

    def start() -> None:
        with settings_by_file({}, {}) as variables:
            files.append(Path(shlex.split(variables[SUBMIT_ARGUMENTS])[1]))
            raise RuntimeError("no Java")

    with pytest.raises(RuntimeError, match="no Java"):
        start()
    assert [(file.name, file.exists()) for file in files] == [("spark.properties", False)]


@pytest.mark.parametrize("form", ["--properties-file {}", "--properties-file={}"])
@pytest.mark.parametrize("loads", ["", "--load-spark-defaults "])
def test_a_file_of_the_user_is_kept(tmp_path: Path, form: str, loads: str) -> None:
    theirs = tmp_path / "their settings.conf"
    theirs.write_text("spark.theirs  1\nspark.both theirs\n")
    given = f"--packages a:b:1 {loads}{form.format(shlex.quote(str(theirs)))} pyspark-shell"
    with settings_by_file({"spark.both": "ours"}, {SUBMIT_ARGUMENTS: given}) as variables:
        option, file, *others = shlex.split(variables[SUBMIT_ARGUMENTS])
        assert option == "--properties-file"
        assert Path(file).read_text() == "spark.theirs  1\nspark.both theirs\n\n\nspark.both=ours\n"
        assert others == ["--packages", "a:b:1", *loads.split(), "pyspark-shell"]


def test_whether_the_defaults_count() -> None:
    assert SubmitArguments.of({}).reads_defaults
    assert not SubmitArguments.of({SUBMIT_ARGUMENTS: "--properties-file x pyspark-shell"}).reads_defaults


def test_values_are_escaped_as_java_reads_them() -> None:
    text = properties_text({"spark.a b=c": " x\\y\nz \t", "spark.plain": "a=b:c #d!", "spark.ü": "é"})
    assert text == "spark.a\\ b\\=c=\\ x\\\\y\\nz \\t\nspark.plain=a=b:c #d!\nspark.ü=é\n"
