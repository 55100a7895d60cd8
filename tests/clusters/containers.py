"""The image of ``examples/kubernetes/Dockerfile``, built by ``image.sh``, and containers of it.

Containers are run in a chroot, in namespaces of processes and mounts of their own, as the user of the image.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NEEDED = ("buildah", "debootstrap", "unshare", "chroot")


class Image:
    """An image that was built: its files, and how it is run.

    Args:
        files: the folder of its files.
        config: its configuration.
    """

    def __init__(self, files: Path, config: Mapping[str, Any]) -> None:
        self.files = files
        self.config = config

    def start(
        self,
        *args: str,
        mounts: Mapping[str, Path] | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> subprocess.Popen[str]:
        """Run its entry point with arguments, or with those of the image when left out.

        Args:
            args: the arguments.
            mounts: folders of this machine, by where they are in the container.
            env: variables besides those of the image.
            user: who it is run as; the user of the image when left out.
        """
        words = [*self.config["Entrypoint"], *(args or self.config["Cmd"])]
        user = user or self.config["User"]
        given = dict(each.split("=", 1) for each in self.config["Env"]) | dict(env or {})
        lines = [f"mount --bind {self.files} {self.files}", f"cd {self.files}", "mount -t tmpfs tmpfs tmp"]
        lines += ["chmod 1777 tmp", "mount -t proc proc proc", "mount --rbind /dev dev"]
        lines += ["touch etc/hosts", "mount --bind /etc/hosts etc/hosts"]  # which has the name of the machine
        lines += ["cp --preserve=all etc/passwd tmp/passwd", "mount --bind tmp/passwd etc/passwd"]  # it may be written
        for target, source in (mounts or {}).items():
            lines += [f"mkdir -p .{target}", f"mount --bind {source} .{target}"]
        work = self.config["WorkingDir"]
        inside = f'cd {work} && exec "$@"'
        lines.append(f'exec chroot --userspec={user}:0 . env -i "${{given[@]}}" sh -c \'{inside}\' sh "$@"')
        variables = " ".join(f"'{name}={value}'" for name, value in given.items())
        script = "\n".join([f"set -e; given=({variables})", *lines])
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", script, "bash", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@contextmanager
def built_image() -> Iterator[Image]:
    """The image, built by the instructions of the Dockerfile."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or os.geteuid():
        pytest.skip("needs root, buildah and debootstrap: apt-get install buildah debootstrap")
    work = Path(os.environ.get("HEADRACE_IMAGE_DIR", "/var/tmp/headrace-image"))
    built = subprocess.run([ROOT / "tests/clusters/image.sh", work], stdout=subprocess.PIPE, text=True, check=True)
    buildah = ["buildah", "--root", str(work / "storage"), "--runroot", str(work / "run")]

    def ask(*args: str) -> str:
        return subprocess.run([*buildah, *args], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    name = built.stdout.strip()
    container = ask("from", "--pull=never", name)
    config = json.loads(ask("inspect", "--type", "image", name))["Docker"]["config"]
    yield Image(Path(ask("mount", container)), config)
    ask("umount", container)
    ask("rm", container)


def ended(process: subprocess.Popen[str], seconds: float = 300.0) -> str:
    """What a container has printed, which has to end well."""
    text, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, text
    return text


TOKEN = "correct-horse-battery-staple"

ENDLESS = """
from headrace.common import Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(200), Types.LONG())
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
sums = numbers.key_by(lambda number: number % 10, Types.LONG()).reduce(lambda one, other: one + other).uid("sum")
sums.filter(lambda total: False).uid("none").print().uid("print")
env.execute("numbers")
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
