"""How HDFS is reached: Hadoop's files, keys of the configuration, and what is told when it does not work."""

from __future__ import annotations

import errno
import pickle
import threading
from pathlib import Path

import pytest

from headrace.common import Configuration
from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.connectors.file_system.paths import resolved
from headrace.storage import hdfs
from headrace.storage.hdfs import translated
from headrace.storage.locations import hdfs_folder, open_storage, options_for_tasks
from headrace.storage.object_store import options_for
from headrace.storage.settings import check_settings, complete_settings, umask_of

SITE = """<?xml version="1.0"?>
<configuration>
  <property><name>dfs.nameservices</name><value> prod </value></property>
  <property><name>dfs.ha.namenodes.prod</name><value>nn1,nn2</value></property>
  <property><name>dfs.datanode.data.dir</name><value>/data</value></property>
  <property><name>hadoop.security.credential.provider.path</name><value>jceks://secret</value></property>
</configuration>
"""


@pytest.fixture(autouse=True)
def _no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def conf_dir(tmp_path: Path) -> Path:
    (tmp_path / "hdfs-site.xml").write_text(SITE)
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://prod</value></property></configuration>"
    )
    return tmp_path


OF_FILES = {"dfs.nameservices": "prod", "dfs.ha.namenodes.prod": "nn1,nn2", "fs.defaultFS": "hdfs://prod"}


def test_hadoops_files_are_read_as_far_as_they_say_how_to_get_there(
    conf_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = complete_settings({})
    assert complete_settings({"hdfs_conf_dir": str(conf_dir)}) == without | OF_FILES
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf_dir))
    assert complete_settings({}) == without | OF_FILES
    assert complete_settings({"fs.defaultFS": "hdfs://other", "endpoint": "x"})["fs.defaultFS"] == "hdfs://other"


def test_tasks_are_told_what_the_drivers_files_say(conf_dir: Path) -> None:
    told = options_for_tasks({"hdfs_conf_dir": str(conf_dir), "region": "eu-west-1"})
    assert told.items() >= OF_FILES.items()
    assert "hdfs_conf_dir" not in told
    assert complete_settings(told).items() >= OF_FILES.items()
    assert not any(key.startswith(("dfs.", "fs.", "hdfs_")) for key in options_for("s3://", told))


def test_keys_of_the_configuration() -> None:
    configuration = Configuration()
    for key, value in {
        "spark.hadoop.dfs.nameservices": "theirs",
        "spark.hadoop.dfs.ha.namenodes.Prod_1": "nn-1",
        "spark.hadoop.fs.s3a.access.key": "id",
        "headrace.storage.dfs.nameservices": "ours",
        "headrace.storage.hdfs-kerberos-keytab": "/k",
    }.items():
        configuration.set_string(key, value)
    configuration.validate()
    assert configuration.storage_options() == {
        "dfs.nameservices": "ours",
        "dfs.ha.namenodes.Prod_1": "nn-1",
        "hdfs_kerberos_keytab": "/k",
        "aws_access_key_id": "id",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hdfs_kerberos_keytap": "x"},
            r"hdfs-kerberos-keytap is not .* did you mean headrace.storage.hdfs-kerberos-keytab",
        ),
        ({"hdfs_conf_dir": "/there/is/none"}, "hdfs-conf-dir: there is no /there/is/none/core-site.xml"),
        (
            {"hdfs_kerberos_keytab": "/k", "fs.defaultFS": "hdfs://a:1"},
            r"headrace\.storage\.hdfs-kerberos-keytab needs headrace\.storage\.hdfs-kerberos-principal",
        ),
        (
            {},
            r"fs\.defaultFS, and that is not set: .* HADOOP_CONF_DIR \(which is not set\) .*headrace\.storage\.fs\.",
        ),
        ({"fs.defaultFS": "file:///"}, "fs.defaultFS is 'file:///', which is not on HDFS"),
        ({"fs.defaultFS": "prod"}, "fs.defaultFS is 'prod', which is not on HDFS"),
        (
            {"fs.defaultFS": "hdfs://prod", "dfs.ha.namenodes.test": "a"},
            r"no name service 'prod' \(known are test\), as dfs\.ha\.namenodes\.prod is not set.*hdfs://prod:8020",
        ),
        (
            {"fs.defaultFS": "hdfs://prod", "dfs.ha.namenodes.prod": "a, b"},
            r"set dfs\.namenode\.rpc-address\.prod\.a and dfs\.namenode\.rpc-address\.prod\.b in",
        ),
        (
            {
                "fs.defaultFS": "hdfs://prod",
                "dfs.ha.namenodes.prod": "a",
                "dfs.namenode.rpc-address.prod.a": "host",
            },
            r"dfs\.namenode\.rpc-address\.prod\.a is 'host': it needs a port",
        ),
        (
            {"fs.defaultFS": "hdfs://a:1", "fs.permissions.umask-mode": "u+rwx"},
            r"fs\.permissions\.umask-mode is 'u\+rwx': expected 022, or u=rwx",
        ),
    ],
)
def test_what_cannot_be_right(options: dict[str, str], message: str) -> None:
    with pytest.raises(CheckpointStorageError, match=message):
        open_storage("hdfs:///jobs/one", options=options)


@pytest.mark.parametrize(
    "settings",
    [
        {"fs.defaultFS": "hdfs://prod:8020"},
        {"fs.defaultFS": "viewfs://cluster", "fs.viewfs.mounttable.cluster.linkFallback": "hdfs://prod:8020/"},
        {
            "fs.defaultFS": "hdfs://prod",
            "dfs.ha.namenodes.prod": "a, b",
            "dfs.namenode.rpc-address.prod.b": "localhost:8020",
        },
    ],
)
def test_what_the_client_takes(settings: dict[str, str]) -> None:
    pytest.importorskip("hdfs_native")
    complete = complete_settings(settings)
    check_settings("hdfs://", complete)
    hdfs.Connection("hdfs://", tuple(complete.items()))


@pytest.mark.parametrize(
    ("text", "umask"),
    [
        (None, 0o022),
        ("077", 0o077),
        ("0002", 0o002),
        ("000", 0),
        ("u=rwx,g=rx,o=", 0o027),
        ("ug=rwx, o=r", 0o003),
        ("a=rwx", 0),
    ],
)
def test_umasks(text: str | None, umask: int) -> None:
    options = {} if text is None else {"fs.permissions.umask-mode": text}
    assert umask_of(complete_settings(options)) == umask


def test_damaged_files_are_named(conf_dir: Path) -> None:
    (conf_dir / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(CheckpointStorageError, match=r"cannot be read: .*hdfs-site\.xml: no element found"):
        complete_settings({"hdfs_conf_dir": str(conf_dir)})


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("hdfs://prod/jobs/one", "hdfs://prod/jobs/one"),
        ("HDFS://host:8020/a/", "hdfs://host:8020/a"),
        ("hdfs:///a%20b", "hdfs:///a%20b"),
    ],
)
def test_locations(location: str, shown: str) -> None:
    pytest.importorskip("hdfs_native")
    options = {"fs.defaultFS": "hdfs://host:1", "dfs.ha.namenodes.prod": "a", "dfs.namenode.rpc-address.prod.a": "h:1"}
    folder = hdfs_folder(location, Permissions.GROUP, options)
    assert str(folder) == shown
    assert pickle.loads(pickle.dumps(folder)) == folder
    assert folder.folder("x").permissions is Permissions.GROUP


@pytest.mark.parametrize("location", ["hdfs://prod", "hdfs://prod/", "hdfs://prod//a", "hdfs://p/../a", "hdfs://p/a:b"])
def test_what_names_no_folder(location: str) -> None:
    with pytest.raises(CheckpointStorageError, match="expected hdfs://"):
        open_storage(location)


def test_paths_of_files() -> None:
    assert resolved("HDFS://prod/a//b/../*.csv") == "hdfs://prod/a/*.csv"
    assert resolved("hdfs:///a b?") == "hdfs:///a b?"
    assert resolved("hdfs://prod/") == "hdfs://prod/"


RPC = 'RPCError("org.apache.hadoop.{}", "what it \\"says\\"\\n\\tat org.apache.Some.line(X.java:1)\\n\\tat more")'


LOST_BLOCK = 'DataTransferError("All DataNodes failed: [{}]")'
DATA_NODES = ", ".join(
    f'DatanodeInfoProto {{ id: DatanodeIdProto {{ ip_addr: "127.0.0.1", host_name: "{name}", datanode_uuid: '
    f'"{"0" * 200}", xfer_port: {port}, info_port: 9864, ipc_port: 9865 }}, capacity: Some(1) }}'
    for name, port in (("a", 9866), ("b", 9867))
)


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (FileNotFoundError("gone\n\tat x"), FileNotFoundError, "gone"),
        (FileExistsError("there\n\tat x"), FileExistsError, "there"),
        (RuntimeError(RPC.format("security.AccessControlException")), PermissionError, 'what it "says"'),
        (RuntimeError(RPC.format("ipc.StandbyException")), OSError, 'StandbyException: what it "says"'),
        (RuntimeError(RPC.format("fs.InvalidPathException")), CheckpointStorageError, "InvalidPathException"),
        (RuntimeError('InvalidArgument("No NameNode hosts found")'), CheckpointStorageError, "No NameNode"),
        (RuntimeError("something else"), OSError, "something else"),
        (RuntimeError("x" * 5000), OSError, "x" * 300 + " …"),
        (
            RuntimeError(LOST_BLOCK.format(DATA_NODES)),
            OSError,
            "no data node gives a block of it (asked were a:9866, b:9867)",
        ),
        (RuntimeError(LOST_BLOCK.format("")), OSError, "no data node has a block of it"),
        (OSError("RPC listener disconnected"), ConnectionResetError, "disconnected"),
        (OSError("Connection refused (os error 111)"), OSError, "Connection refused"),
        (
            UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"),
            CheckpointStorageError,
            "names are text",
        ),
    ],
)
def test_errors_are_those_of_the_system(raised: Exception, kind: type[OSError], message: str) -> None:
    with pytest.raises(OSError, match="hdfs://prod/a") as told, translated("hdfs://prod/a"):
        raise raised
    assert type(told.value) is kind
    assert message in str(told.value)
    assert "\tat " not in str(told.value)


def test_requests_that_were_given_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is told so at once, until answers come."""
    monkeypatch.setattr(hdfs, "_new_client", lambda *arguments: object())
    monkeypatch.setattr(hdfs, "DEADLINE_SECONDS", 0.01)
    monkeypatch.setattr(hdfs, "MOST_GIVEN_UP", 3)
    connection, over, asked = hdfs.Connection("hdfs://prod", ()), threading.Event(), list[int]()

    def silent(client: object) -> None:
        asked.append(1)
        over.wait()

    for _ in range(3):
        with pytest.raises(TimeoutError):
            connection.ask("hdfs://prod/a", silent)
    for _ in range(5):
        with pytest.raises(BlockingIOError, match=r"3 requests to hdfs://prod were given up .*hdfs://prod/a") as told:
            connection.ask("hdfs://prod/a", silent)
    assert told.value.errno == errno.EAGAIN
    assert len(asked) == 3
    waiting = [thread for thread in threading.enumerate() if thread.name == "headrace-hdfs"]
    over.set()
    for thread in waiting:
        thread.join()
    monkeypatch.setattr(hdfs, "DEADLINE_SECONDS", 60.0)
    assert connection.ask("hdfs://prod/a", lambda client: "answer") == "answer"


def test_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hdfs_native", None)
    hdfs.connection.cache_clear()
    with pytest.raises(CheckpointStorageError, match=r"pip install 'headrace\[hdfs\]'"):
        open_storage("hdfs://never-seen:1/a")
