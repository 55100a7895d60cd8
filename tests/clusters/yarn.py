"""A YARN of one node: Hadoop's own, in one Java process, from the jar that the tests of HDFS fetch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.storage.hdfs_cluster import launch_java

_SERVER = "org.apache.hadoop.yarn.server"

_SETTINGS = {
    "fs.defaultFS": "file:///",
    "yarn.resourcemanager.address": "127.0.0.1:0",
    "yarn.resourcemanager.scheduler.address": "127.0.0.1:0",
    "yarn.resourcemanager.resource-tracker.address": "127.0.0.1:0",
    "yarn.resourcemanager.admin.address": "127.0.0.1:0",
    "yarn.resourcemanager.webapp.address": "127.0.0.1:0",
    "yarn.resourcemanager.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
    "yarn.nodemanager.hostname": "127.0.0.1",
    "yarn.nodemanager.address": "127.0.0.1:0",
    "yarn.nodemanager.localizer.address": "127.0.0.1:0",
    "yarn.nodemanager.webapp.address": "127.0.0.1:0",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    # A machine for tests may have a disk that is nearly full
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
}


class YarnCluster:
    """A resource manager and a node manager, which start containers as processes of this machine.

    Args:
        folder: where they work.

    Attributes:
        configuration: the folder for ``HADOOP_CONF_DIR``.
    """

    def __init__(self, folder: Path) -> None:
        self._gateway, self._process = launch_java(folder)
        java = self._gateway.jvm
        settings: Any = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for key, value in _SETTINGS.items():
            settings.set(key, value)
        settings.set("yarn.nodemanager.local-dirs", str(folder / "local"))
        settings.set("yarn.nodemanager.log-dirs", str(folder / "logs"))
        server = java.org.apache.hadoop.yarn.server
        self._services = []
        for service in (server.resourcemanager.ResourceManager(), server.nodemanager.NodeManager()):
            service.init(settings)
            service.start()
            self._services.append(service)
        self.configuration = folder / "configuration"
        self.configuration.mkdir()
        for name in ("core-site.xml", "yarn-site.xml"):
            file = java.java.io.FileOutputStream(str(self.configuration / name))
            settings.writeXml(file)
            file.close()

    def end(self) -> None:
        """Be gone, with all containers."""
        for service in reversed(self._services):
            service.stop()
        self._gateway.shutdown()
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
