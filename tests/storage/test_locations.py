"""A checkpoint location is what it says, or it is refused: none of it is left out, and none leads elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common.configuration import Configuration
from headrace.common.errors import CheckpointStorageError, ConfigurationError, InvalidProgramError
from headrace.connectors.file_system.paths import resolved
from headrace.datastream import StreamExecutionEnvironment
from headrace.storage.locations import local_path, open_storage
from tests.docs.documents import DOCS, example


@pytest.mark.parametrize(
    "location", ["file:///data/job#1", "file:///data/job?run=2", "file:///data/job?", "file:///a#"]
)
def test_no_end_of_a_file_uri_is_left_out(location: str) -> None:
    """Two jobs would share a directory."""
    with pytest.raises(CheckpointStorageError, match="%3F and %23"):
        local_path(location)


def test_what_is_escaped_in_a_file_uri() -> None:
    assert local_path("file:///data/job%231%3F") == Path("/data/job#1?")
    assert local_path("file:///data/%ff") != local_path("file:///data/%fe")


@pytest.mark.parametrize("location", ["file://", "file:", "file://localhost", "file:data", "", "  "])
def test_where_nothing_is_named_nothing_is_made_up(location: str) -> None:
    """The working directory above all."""
    with pytest.raises(CheckpointStorageError, match=r"checkpoint directory .*(expected|is empty)"):
        open_storage(location)


@pytest.mark.parametrize(
    "location",
    [" s3://bucket/a", "s3://bucket/a ", "s3://bucket/a\n", "s3://bucket/a\tb", "s3://b/a\x7f", " file:///a"],
)
def test_a_uri_has_no_characters_that_would_be_left_out(location: str) -> None:
    with pytest.raises(CheckpointStorageError, match="no white space at its ends and no control characters"):
        open_storage(location)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("s3:bucket/a", "it can be a folder"),
        ("hdfs://namenode:8020", "expected hdfs://<name service or host:port>/<folder>"),
        ("hdfs:/a", "its URI is file:///data/checkpoints"),
        ("webhdfs://namenode:9870/a", "HDFS is used by its own protocol only"),
        ("s3://[bucket/a", "Invalid IPv6 URL"),
        ("~nobody-of-this-name/a", "home directory"),
        ("/data/a\0b", "zero byte"),
        ("file:///data/%00", "zero byte"),
    ],
)
def test_what_is_no_location(location: str, reason: str) -> None:
    with pytest.raises(CheckpointStorageError, match=reason):
        open_storage(location)


@pytest.mark.parametrize("location", ["s3://key:hush@bucket/a", "s3://key@bucket/a", "gs://bucket:9000/a"])
def test_credentials_and_ports_have_no_place_in_it(location: str) -> None:
    with pytest.raises(CheckpointStorageError, match="only the name of the bucket has its place") as raised:
        open_storage(location)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("bucket", "other", r"headrace\.storage\.bucket: the URI says which it is"),
        ("aws_bucket_name", "other", "says which it is"),
        ("endpoint", "minio:9000", "does not begin with http"),
        ("session_token", "hush\n", "control character"),
    ],
)
def test_options_that_lead_elsewhere(key: str, value: str, reason: str) -> None:
    pytest.importorskip("obstore")
    with pytest.raises(CheckpointStorageError, match=reason) as raised:
        open_storage("s3://bucket/a", options={key: value})
    assert "hush" not in str(raised.value)


@pytest.fixture
def in_a_deleted_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()


@pytest.mark.usefixtures("in_a_deleted_folder")
def test_a_relative_path_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(CheckpointStorageError, match="'ck': it is relative to the working directory, which"):
        open_storage("ck")
    with pytest.raises(InvalidProgramError, match="'input' is relative to the working directory, which was deleted"):
        resolved("input")
    assert resolved(tmp_path) == str(tmp_path)


def test_a_file_in_the_home_of_nobody() -> None:
    with pytest.raises(InvalidProgramError, match=r"path '~nobody-of-this-name/a': .*home directory"):
        resolved("~nobody-of-this-name/a")


def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    folder = open_storage(f"file://{tmp_path}/%ff")
    folder.make()
    folder.write("a", [b"content"])
    assert folder.map("a").buffer.to_pybytes() == b"content"


def test_a_storage_that_a_distribution_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "site" / "vault-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: vault\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[headrace.checkpoint_storages]\nvault = vault_storage:Vault\n")
    (tmp_path / "site" / "vault_storage.py").write_text(example(DOCS / "plugins.md", "storage"))
    with pytest.raises(
        CheckpointStorageError, match=r"entry point 'vault' in the group 'headrace\.checkpoint_storages'"
    ):
        open_storage("vault://team/job")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ConfigurationError, match=r"headrace\.storage\.vault-root is not set"):
        open_storage("vault://team/job")
    settings = {
        "headrace.runtime": "local",
        "execution.checkpointing.dir": "vault://team/job",
        "headrace.storage.vault-root": str(tmp_path / "root"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    with env.from_sequence(1, 10).execute_and_collect() as numbers:
        assert sorted(numbers) == list(range(1, 11))
    assert list((tmp_path / "root" / "team" / "job" / "manifests").iterdir()) != []
