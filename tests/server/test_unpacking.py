"""Archives that somebody has made to do harm: what they are unpacked to stays in its folder, and is bounded."""

from __future__ import annotations

import stat
import struct
import zipfile
from pathlib import Path

import pytest

from headrace.cli import job_process
from headrace.cli.job_process import script_of
from headrace.common.errors import ConfigurationError


def archive(folder: Path, *files: tuple[str | zipfile.ZipInfo, str]) -> Path:
    made = folder / "work" / "job.zip"
    made.parent.mkdir()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, text in files:
            opened.writestr(name, text)
    return made


def files_of(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir()}


def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    names = ("../../evil.py", "/etc/evil.py", "a/../../../evil.py", "C:\\evil.py", "main.py")
    assert script_of(archive(tmp_path, *((name, "pass") for name in names)), "").name == "main.py"
    assert files_of(tmp_path) == {"work/job.zip"} | {
        f"work/unpacked/{name}" for name in ("evil.py", "etc/evil.py", "a/evil.py", "C:\\evil.py", "main.py")
    }


def test_links_are_plain_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush")
    link = zipfile.ZipInfo("main.py")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    script = script_of(archive(tmp_path, (link, str(secret))), "")
    assert not script.is_symlink()
    assert script.read_text() == str(secret)


def test_a_link_in_place_of_a_folder_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = zipfile.ZipInfo("lib")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(ConfigurationError, match=r"job\.zip cannot be unpacked"):
        script_of(archive(tmp_path, (link, str(outside)), ("lib/evil.py", "pass")), "")
    assert [*outside.iterdir()] == []


@pytest.mark.parametrize("entry", ["../secret.py", "/etc/hostname", "main.py/..", "none.py"])
def test_scripts_outside_are_not_run(tmp_path: Path, entry: str) -> None:
    made = archive(tmp_path, ("main.py", "pass"))
    (tmp_path / "work" / "secret.py").write_text("pass")
    with pytest.raises(ConfigurationError, match="name the script in it"):
        script_of(made, entry)


def test_what_is_unpacked_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = archive(tmp_path, *((f"{number}.txt", "0" * 10_000) for number in range(30)))
    with monkeypatch.context() as patched:
        patched.setattr(job_process, "_MOST_FILES", 29)
        with pytest.raises(ConfigurationError, match="more than 29 files"):
            script_of(made, "")
    monkeypatch.setattr(job_process, "_MOST_UNPACKED", 299_999)
    with pytest.raises(ConfigurationError, match="more than 0 GiB"):
        script_of(made, "")
    assert files_of(tmp_path) == {"work/job.zip"}


def test_a_file_that_says_that_it_is_small_is_cut(tmp_path: Path) -> None:
    made = archive(tmp_path, ("main.py", "0" * 1_000_000))
    content = made.read_bytes()
    size = struct.pack("<L", 1_000_000)
    assert content.count(size) == 2
    made.write_bytes(content.replace(size, struct.pack("<L", 10)))
    with pytest.raises(ConfigurationError, match="cannot be unpacked"):
        script_of(made, "")
    assert (tmp_path / "work" / "unpacked" / "main.py").stat().st_size <= 10


def test_what_is_damaged_is_refused(tmp_path: Path) -> None:
    made = archive(tmp_path, ("main.py", "print('a job that is long enough')"))
    content = made.read_bytes()
    for damaged in (b"no archive", content[:-30], content.replace(b"PK\x03\x04", b"PK\x03\x05", 1), b""):
        made.write_bytes(damaged)
        with pytest.raises(ConfigurationError, match="cannot be unpacked"):
            script_of(made, "")


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    made = archive(tmp_path, ("main.py", "pass"))
    content = bytearray(made.read_bytes())
    content[6] |= 1  # the flag of the file
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and of the directory
    made.write_bytes(content)
    with pytest.raises(ConfigurationError, match="cannot be unpacked"):
        script_of(made, "")
