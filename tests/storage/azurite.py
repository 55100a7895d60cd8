"""An Azure Blob Storage to test against: Microsoft's emulator, which npm fetches."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest

from tests.storage.s3_server import ObjectServer

_VERSION = "3.35.0"
_CACHE = Path.home() / ".cache" / "headrace-tests" / f"azurite-{_VERSION}"
_PROGRAM = _CACHE / "node_modules" / ".bin" / "azurite-blob"

_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's own, which everybody knows."""

_API = "2021-08-06"


class Azurite(ObjectServer):
    """One server; what is in it is gone when it ends."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [str(_PROGRAM), "--silent", "--inMemoryPersistence", "--blobPort", str(self.port)]
        self._process = subprocess.Popen([*command, "--skipApiVersionCheck", "--disableTelemetry"])
        end = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                assert time.monotonic() < end
                assert self._process.poll() is None
                time.sleep(0.1)
            else:
                return

    def new_bucket(self) -> str:
        """The URI of a container of its own."""
        name = f"container-{uuid.uuid4().hex[:12]}"
        date = email.utils.formatdate(usegmt=True)
        headers = {"x-ms-date": date, "x-ms-version": _API, "Content-Length": "0"}
        signed = f"x-ms-date:{date}\nx-ms-version:{_API}\n/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
        text = "PUT" + "\n" * 12 + signed
        signature = base64.b64encode(hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()).decode()
        headers["Authorization"] = f"SharedKey {_ACCOUNT}:{signature}"
        url = f"http://127.0.0.1:{self.port}/{_ACCOUNT}/{name}?restype=container"
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers)):
            return f"az://{name}"

    def options(self, port: int | None = None) -> dict[str, str]:
        """What a client has to be told; it may reach the server by another port."""
        return {
            "endpoint": f"http://127.0.0.1:{port or self.port}/{_ACCOUNT}",
            "account_name": _ACCOUNT,
            "account_key": _KEY,
            "retry_timeout": "2 s",
        }

    def end(self) -> None:
        """Be gone."""
        self._process.terminate()
        self._process.wait()


def require_azurite() -> None:
    """Skip the test where the emulator can neither be found nor fetched."""
    if _PROGRAM.exists():
        return
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm to fetch Azure's emulator with")
    _CACHE.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(_CACHE), f"azurite@{_VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode or not _PROGRAM.exists():
        pytest.skip(f"Azure's emulator cannot be fetched: {done.stdout[-300:]}{done.stderr[-300:]}")
