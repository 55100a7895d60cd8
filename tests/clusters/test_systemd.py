"""The unit of ``examples/systemd``, run by a systemd of its own: started, killed, restarted and stopped.

``make test-systemd`` runs these tests. systemd is the first process of a namespace, on the files of the image of
``examples/kubernetes`` with Debian's systemd put over them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.server.client import RestClient, RestClientError
from tests.clusters.containers import ENDLESS, Image, free_port
from tests.docs.documents import ROOT
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(3600)]

UNIT = ROOT / "examples" / "systemd" / "headrace-cluster.service"
GROUPS = Path("/sys/fs/cgroup/systemd")

_APART = ("unshare", "--mount", "--pid", "--fork")

_PREPARE = """
set -e
mount -t overlay overlay -o "lowerdir=$2,upperdir=$3/upper,workdir=$3/work" "$1"
cd "$1"
cp -L /etc/resolv.conf /etc/hosts etc/
mount -t proc proc proc
mount --rbind /dev dev
export DEBIAN_FRONTEND=noninteractive
chroot . apt-get update -qq
chroot . apt-get install -qq --no-install-recommends systemd >/dev/null
chroot . useradd --system --home-dir /var/lib/headrace headrace
mkdir -p opt/headrace etc/headrace
ln -sfn /usr/local/bin opt/headrace/bin
"""
"""Arguments: the mount point, the files of the image, a folder on the disk."""

_BOOT = """
set -e
mount -t overlay overlay -o "lowerdir=$2,upperdir=$3/upper,workdir=$3/work" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /dev dev
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
export container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec chroot . /lib/systemd/systemd --unit=headrace-cluster.service
"""


class Machine:
    """A systemd with the unit.

    Args:
        image: what is below.
        folder: where its files are.
    """

    def __init__(self, image: Image, folder: Path) -> None:
        self._group = GROUPS / f"headrace-test-{os.getpid()}"
        self._root, self._files = folder / "root", str(image.files)
        self._disk = folder / "disk"
        for each in (self._root, self._disk / "upper", self._disk / "work"):
            each.mkdir(parents=True)
        arguments = [str(self._root), self._files, str(self._disk)]
        subprocess.run([*_APART, "bash", "-c", _PREPARE, "bash", *arguments], check=True)
        self.port = free_port()
        etc = self._disk / "upper" / "etc"
        (etc / "systemd/system" / UNIT.name).write_text(UNIT.read_text())
        (etc / "headrace/cluster.conf").write_text(
            f"rest.port {self.port}\nheadrace.spark.master local[2]\nheadrace.cluster.stop-timeout 90 s\n"
        )
        self._group.mkdir()
        apart = [*_APART, "--cgroup", "--ipc", "--uts", "--kill-child"]
        enter = f'echo $$ > {self._group}/cgroup.procs && exec "$@"'
        self._process = subprocess.Popen(["bash", "-c", enter, "bash", *apart, "bash", "-c", _BOOT, "bash", *arguments])
        self.rest = RestClient(f"http://127.0.0.1:{self.port}", seconds=60.0)

    @property
    def first(self) -> int:
        """The process of systemd, as others see it."""
        [found] = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(found)

    def run(self, *command: str) -> str:
        """What a command prints there."""
        inside = ["nsenter", "--target", str(self.first), "--all", "--root", *command]
        done = subprocess.run(inside, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def show(self, name: str) -> str:
        """A property of the unit."""
        return self.run("systemctl", "show", "--value", "--property", name, UNIT.name).strip()

    def end(self) -> None:
        """Be gone, with all that runs there."""
        self._process.kill()
        self._process.wait(PATIENCE)
        wait_for(lambda: not (self._group / "cgroup.procs").read_text())
        for group in sorted(self._group.rglob("*/"), reverse=True):
            if group.is_dir():
                group.rmdir()
        self._group.rmdir()


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if not GROUPS.is_dir():
        pytest.skip(f"needs {GROUPS}: a hierarchy of control groups in which a systemd can have one of its own")
    if subprocess.run([*_APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs namespaces, which a container without CAP_SYS_ADMIN has not")
    made = Machine(request.getfixturevalue("image"), tmp_path_factory.mktemp("machine"))
    yield made
    made.end()


def told(machine: Machine, *path: str) -> Any:
    """What its dispatcher answers; None while it does not lead."""
    try:
        return machine.rest.get(*path)
    except RestClientError:
        return None


def runs(machine: Machine, job: str) -> bool:
    return told(machine, "jobs", job, "status") == {"status": "RUNNING"}


def test_the_unit_is_started_restarted_and_stopped(machine: Machine, tmp_path: Path) -> None:
    wait_for(lambda: told(machine, "overview"))
    assert machine.show("ActiveState") == "active"
    dispatcher = machine.show("MainPID")
    assert machine.run("stat", "-c", "%U %a", "/var/lib/headrace", f"/proc/{dispatcher}").startswith("headrace ")
    program = tmp_path / "job.py"
    program.write_text(ENDLESS)
    job = str(machine.rest.ask("POST", ("jars", machine.rest.upload(program), "run"), body={})["jobid"])
    wait_for(lambda: runs(machine, job))

    machine.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT.name)
    wait_for(lambda: machine.show("MainPID") not in (dispatcher, "0", ""))
    wait_for(lambda: told(machine, "overview"))
    assert machine.show("NRestarts") == "1"
    wait_for(lambda: runs(machine, job))
    assert machine.rest.get("jobs", job, "checkpoints")["latest"].get("restored") is None  # its process went on

    machine.run("systemctl", "stop", UNIT.name)
    assert machine.show("ActiveState") == "inactive"
    assert machine.show("Result") == "success"
    assert "job_process" not in machine.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")

    machine.run("systemctl", "start", UNIT.name)
    wait_for(lambda: told(machine, "overview"))
    wait_for(lambda: runs(machine, job))
    assert machine.rest.get("jobs", job, "checkpoints")["latest"]["restored"]["id"] > 0
