"""An HDFS to test against: Hadoop's own, with two name nodes and two data nodes, in one Java process.

Its classes come with Spark, but for a few jars, which Ivy (also Spark's) fetches as Spark would fetch a package.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.common.durable import Permissions
from headrace.storage.locations import open_storage

_VERSION = "3.5.0"
_CACHE = Path.home() / ".cache" / "headrace-tests" / "hadoop"
_JAR = _CACHE / f"hadoop-client-minicluster-{_VERSION}.jar"
_NAMESERVICE = "cluster"


class HdfsCluster:
    """One cluster, highly available.

    Args:
        folder: where its files are.

    Attributes:
        cluster: Hadoop's object, in Java.
    """

    def __init__(self, folder: Path) -> None:
        self._gateway, self._process = launch_java(folder)
        java = self._gateway.jvm
        configuration = java.org.apache.hadoop.conf.Configuration()
        configuration.set("hdfs.minidfs.basedir", str(folder))
        configuration.set("dfs.namenode.fs-limits.min-block-size", "4096")
        topology = java.org.apache.hadoop.hdfs.MiniDFSNNTopology.simpleHATopology()
        builder = java.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(configuration)
        self.cluster: Any = builder.nnTopology(topology).numDataNodes(2).build()
        self._active = 0
        self.cluster.waitActive()
        self.cluster.transitionToActive(0)
        addresses = [f"localhost:{self.cluster.getNameNodePort(number)}" for number in range(2)]
        self._options = {
            "dfs.nameservices": _NAMESERVICE,
            f"dfs.ha.namenodes.{_NAMESERVICE}": "nn0,nn1",
            f"dfs.namenode.rpc-address.{_NAMESERVICE}.nn0": addresses[0],
            f"dfs.namenode.rpc-address.{_NAMESERVICE}.nn1": addresses[1],
        }

    def options(self) -> dict[str, str]:
        """What a client has to be told."""
        return dict(self._options)

    def new_place(self) -> str:
        """The URI of a folder of its own."""
        return f"hdfs://{_NAMESERVICE}/tests/{uuid.uuid4().hex[:12]}"

    def through(self, port: int, place: str) -> tuple[str, dict[str, str]]:
        """A place, and what a client has to be told, for clients that reach the active name node by another port."""
        options = {
            "dfs.nameservices": "proxied",
            "dfs.ha.namenodes.proxied": "one",
            "dfs.namenode.rpc-address.proxied.one": f"localhost:{port}",
        }
        return place.replace(f"hdfs://{_NAMESERVICE}/", "hdfs://proxied/"), options

    def put(self, uri: str, content: bytes) -> None:
        """Create or replace a file."""
        folder, _, name = uri.rpartition("/")
        found = open_storage(folder, Permissions.UMASK, self._options)
        found.make()
        found.write(name, [content])

    def lose(self, uri: str) -> int:
        """Have all data nodes lose the blocks of a file; gives how many there were."""
        client = self.cluster.getFileSystem(self._active).getClient()
        blocks = client.getLocatedBlocks("/" + uri.split("/", 3)[3], 0).getLocatedBlocks()
        for block in blocks:
            self.cluster.corruptBlockOnDataNodesByDeletingBlockFile(block.getBlock())
        return len(blocks)

    @property
    def serving_port(self) -> int:
        """Where the active name node listens."""
        return int(self.cluster.getNameNodePort(self._active))

    def fail_over(self) -> None:
        """The active name node becomes the standby, and the other way round."""
        self.cluster.transitionToStandby(self._active)
        self._active = 1 - self._active
        self.cluster.transitionToActive(self._active)

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """No node answers, and no connection breaks."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Be gone."""
        self._gateway.shutdown()
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait()


def launch_java(folder: Path) -> tuple[Any, subprocess.Popen[bytes]]:
    """A Java with Hadoop's classes that works in a folder, and its process; it ends with this process."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    frugal = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
    port, process = launch_gateway(
        classpath=_class_path(), die_on_exit=True, java_path=_java(), javaopts=frugal, return_proc=True, cwd=str(folder)
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True)), process


def require_hadoop() -> None:
    """Skip the test where the jar can neither be found nor fetched."""
    _fetch(_JAR, "org.apache.hadoop", "hadoop-client-minicluster", _VERSION, "-notransitive", "-confs", "master")


def require_yarn() -> None:
    """The same for YARN, which makes certificates by another library."""
    require_hadoop()
    name, version = "bcpkix-jdk18on", "1.78.1"
    _fetch(_CACHE / f"{name}-{version}.jar", "org.bouncycastle", name, version, "-confs", "master,compile,runtime")


def _fetch(jar: Path, group: str, name: str, version: str, *options: str) -> None:
    if jar.exists():
        return
    _CACHE.mkdir(parents=True, exist_ok=True)
    target = str(_CACHE / "[artifact]-[revision].[ext]")
    ivy = ["-dependency", group, name, version, *options, "-types", "jar", "-retrieve", target]
    command = [_java(), "-cp", _class_path(), "org.apache.ivy.Main", "-cache", str(_CACHE / "ivy"), *ivy]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{jar.stem} cannot be fetched from Maven Central: no end of it within 300 s")
    if done.returncode or not jar.exists():
        pytest.skip(f"{jar.stem} cannot be fetched from Maven Central: {done.stdout[-300:]}{done.stderr[-300:]}")


def _class_path() -> str:
    import pyspark

    return f"{_CACHE}/*:{Path(pyspark.__file__).parent}/jars/*"


def _java() -> str:
    from headrace.common.java import bundled_java_home, find_java

    return f"{find_java(os.environ, bundled_java_home()).home}/bin/java"
