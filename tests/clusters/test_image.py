"""The image of ``examples/kubernetes/Dockerfile``, built and run: the job, an executor, the dispatcher and its probes.

``make test-image`` runs these tests.
"""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from headrace.server.client import RestClient
from tests.clusters.containers import ENDLESS, TOKEN, Image, ended, free_port
from tests.docs.documents import ROOT
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(3600)]

FOLDER = ROOT / "examples" / "kubernetes"


def test_who_runs_in_it(image: Image) -> None:
    told = ended(image.start("sh", "-c", "id -u; pwd; python --version; headrace version; ls $SPARK_HOME/jars | wc -l"))
    user, place, python, version, jars = told.splitlines()
    assert (user, place) == ("185", "/opt/job")
    assert python.startswith("Python 3.12.")
    assert version
    assert int(jars) > 100


def test_its_command_is_the_job(image: Image) -> None:
    told = ended(image.start())
    assert "to" in told


def test_a_user_without_a_name_runs_the_job(image: Image) -> None:
    """As on OpenShift, where each namespace has user ids of its own, in the group of root."""
    user = "1000660000"
    told = ended(image.start("sh", "-c", "id -u; id -g; whoami; headrace run main.py", user=user))
    assert told.splitlines()[:3] == [user, "0", "headrace"]
    assert "to" in told


def test_doctor_finds_nothing_wrong(image: Image) -> None:
    ended(image.start("headrace", "doctor", "--master", "local[2]"))


def test_the_command_of_executors_is_sparks_own_class(image: Image) -> None:
    names = ("ID", "CORES", "MEMORY", "POD_IP", "POD_NAME")
    env = dict(zip((f"SPARK_EXECUTOR_{name}" for name in names), ("7", "1", "256m", "127.0.0.1", "pod-7"), strict=True))
    env |= {"SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1", "SPARK_APPLICATION_ID": "spark-1"}
    env |= {"SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_JAVA_OPT_0": "-Dwords=two words"}
    process = image.start("executor", env=env)
    text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0  # there is no driver
    assert "KubernetesExecutorBackend" in text
    assert "127.0.0.1:1" in text


# --- with the manifests -----------------------------------------------------------------------------------------------


def manifests(name: str) -> dict[str, Any]:
    return {document["kind"]: document for document in yaml.safe_load_all((FOLDER / name).read_text())}


class Pod:
    """A container of a deployment, with what its manifest mounts; its address is one of this machine.

    Args:
        image: what it runs.
        found: the manifests.
        folder: where its files are.
        instead: settings that this machine needs.
        script: the program in place of that of the image.
    """

    def __init__(
        self, image: Image, found: Mapping[str, Any], folder: Path, instead: Mapping[str, str], script: str = ""
    ) -> None:
        self.port = free_port()
        [settings] = found["ConfigMap"]["data"]
        lines = found["ConfigMap"]["data"][settings].splitlines()
        changed = {
            **instead,
            "rest.bind-address": "127.0.0.1",
            "rest.address": "127.0.0.1",
            "rest.port": str(self.port),
        }
        kept = [line for line in lines if not line.startswith(("spark.", *changed))]
        configuration, token, program = folder / "configuration", folder / "token", folder / "program"
        for each in (configuration, token, program, folder / "data"):
            each.mkdir(exist_ok=True)
        (configuration / settings).write_text("\n".join([*kept, *(f"{key} {value}" for key, value in changed.items())]))
        (token / "token").write_text(TOKEN)
        (token / "token").chmod(0o440)
        (program / "main.py").write_text(script)
        (folder / "data").chmod(0o777)
        [container] = found["Deployment"]["spec"]["template"]["spec"]["containers"]
        args = [arg.replace("main.py", "/opt/program/main.py") for arg in container["args"]]
        mounts = {"/etc/headrace": configuration, "/etc/headrace-token": token, "/opt/program": program}
        self.process = image.start(*args, mounts={**mounts, "/data": folder / "data"}, env={"POD_NAME": "pod-1"})
        self.rest = RestClient(f"http://127.0.0.1:{self.port}", TOKEN, seconds=60.0)

    def status(self, path: str, **headers: str) -> int:
        """The status of an answer, as a probe sees it; 0 where nobody answers."""
        try:
            asked = urllib.request.Request(f"{self.rest.address}{path}", headers=headers)
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            assert self.process.poll() is None, self.process.communicate()[0]
            return 0

    def terminate(self) -> str:
        """Have it end, as Kubernetes does: the first process of its namespace gets the signal."""
        [first] = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGTERM)
        text, _ = self.process.communicate(timeout=130)
        assert self.process.returncode in (0, 128 + signal.SIGTERM), text
        return text


def test_a_job_as_an_application(image: Image, tmp_path: Path) -> None:
    instead = {"execution.checkpointing.dir": "/data/checkpoints", "spark.master": "local[2]"}
    first = Pod(image, manifests("job.yaml"), tmp_path, instead, ENDLESS)
    wait_for(lambda: first.status("/readyz") == 200)
    assert first.status("/healthz") == 200
    assert first.status("/v1/jobs") == 401
    [job] = first.rest.get("jobs", "overview")["jobs"]
    assert job["state"] == "RUNNING"
    wait_for(lambda: first.rest.get("jobs", job["jid"], "checkpoints")["counts"]["completed"] > 1)
    first.terminate()
    second = Pod(image, manifests("job.yaml"), tmp_path, instead, ENDLESS)
    wait_for(lambda: second.status("/readyz") == 200)
    told = second.rest.get("jobs", job["jid"], "checkpoints")["latest"]["restored"]
    assert told["id"] > 1
    second.terminate()


def test_a_dispatcher(image: Image, tmp_path: Path) -> None:
    instead = {"high-availability.storageDir": "/data/cluster", "headrace.spark.master": "local[2]"}
    first = Pod(image, manifests("dispatcher.yaml"), tmp_path, instead)
    wait_for(lambda: first.status("/readyz") == 200)
    assert first.status("/healthz") == 200
    assert first.status("/v1/jobs") == 401
    program = tmp_path / "job.py"
    program.write_text(ENDLESS)
    job = str(first.rest.ask("POST", ("jars", first.rest.upload(program), "run"), body={})["jobid"])
    wait_for(lambda: first.rest.get("jobs", job, "status")["status"] == "RUNNING")
    wait_for(lambda: first.rest.get("jobs", job, "checkpoints")["counts"]["completed"] > 1)
    first.terminate()
    second = Pod(image, manifests("dispatcher.yaml"), tmp_path, instead)
    wait_for(lambda: second.status("/readyz") == 200)
    wait_for(lambda: second.rest.get("jobs", job, "status")["status"] == "RUNNING")
    assert second.rest.get("jobs", job, "checkpoints")["latest"]["restored"]["id"] > 1
    second.terminate()
