"""The files in ``examples/kubernetes``: manifests as Kubernetes wants them, and an entry point as Spark wants it."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import unstyle
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.common import server_options
from headrace.common.configuration import Configuration
from headrace.runtime.spark.settings import read_spark_defaults
from headrace.server.routes import ROUTES
from tests.docs.documents import ROOT

FOLDER = ROOT / "examples" / "kubernetes"
DOCUMENTS = [
    document for name in ("rbac.yaml", "job.yaml") for document in yaml.safe_load_all((FOLDER / name).read_text())
]
DISPATCHER = {document["kind"]: document for document in yaml.safe_load_all((FOLDER / "dispatcher.yaml").read_text())}


def of_kind(kind: str) -> Any:
    (found,) = (document for document in DOCUMENTS if document["kind"] == kind)
    return found


@pytest.mark.parametrize("document", [*DOCUMENTS, *DISPATCHER.values()], ids=lambda document: document["kind"])
def test_the_schemas_of_kubernetes(document: dict[str, Any]) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_a_wrong_document_is_found() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    wrong = {**of_kind("Deployment"), "spec": {**of_kind("Deployment")["spec"], "replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_the_settings_are_known() -> None:
    settings = read_spark_defaults(of_kind("ConfigMap")["data"]["job.conf"])
    Configuration.from_dict(settings).validate()
    assert settings["spark.driver.host"] == "{name}.{namespace}.svc".format(**of_kind("Service")["metadata"])
    ports = {settings[key] for key in ("spark.driver.port", "spark.driver.blockManager.port", "rest.port")}
    assert ports == {str(port["port"]) for port in of_kind("Service")["spec"]["ports"]}


def test_names_agree() -> None:
    pod = of_kind("Deployment")["spec"]["template"]
    (driver,) = pod["spec"]["containers"]
    settings = read_spark_defaults(of_kind("ConfigMap")["data"]["job.conf"])
    assert driver["image"] == settings["spark.kubernetes.container.image"]
    assert pod["spec"]["serviceAccountName"] == of_kind("ServiceAccount")["metadata"]["name"]
    assert of_kind("Service")["spec"]["selector"] == pod["metadata"]["labels"]
    assert of_kind("Namespace")["metadata"]["name"] == settings["spark.kubernetes.namespace"]
    assert {document["metadata"].get("namespace", "streaming") for document in DOCUMENTS} == {"streaming"}


def entry_point(java_home: Path, *arguments: str, **variables: str) -> list[str]:
    """What the entry point runs, word by word; Java prints its arguments."""
    java = java_home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nfor word do echo "$word"; done\n')
    java.chmod(0o755)
    command = ["sh", str(FOLDER / "entrypoint.sh"), *arguments]
    environment = {"PATH": "/usr/bin:/bin", "JAVA_HOME": str(java_home), "SPARK_HOME": "/opt/spark", **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_entry_point_of_an_executor(tmp_path: Path) -> None:
    words = entry_point(
        tmp_path,
        "executor",
        SPARK_JAVA_OPT_0="-Dmessage=two words",
        SPARK_JAVA_OPT_1="-XX:+UseSerialGC",
        SPARK_EXECUTOR_MEMORY="1g",
        SPARK_DRIVER_URL="spark://driver:7078",
        SPARK_EXECUTOR_ID="7",
        SPARK_EXECUTOR_CORES="2",
        SPARK_APPLICATION_ID="spark-1",
        SPARK_EXECUTOR_POD_IP="10.0.0.1",
        SPARK_RESOURCE_PROFILE_ID="0",
        SPARK_EXECUTOR_POD_NAME="pod-7",
    )
    assert words[:4] == ["-Dmessage=two words", "-XX:+UseSerialGC", "-Xms1g", "-Xmx1g"]
    assert words[4:6] == ["-cp", "/opt/spark/conf::/opt/spark/jars/*"]
    options = dict(zip(words[7::2], words[8::2], strict=True))
    assert options["--driver-url"] == "spark://driver:7078"
    assert options["--podName"] == "pod-7"
    assert len(options) == 7


def test_the_entry_point_runs_every_other_command(tmp_path: Path) -> None:
    assert entry_point(tmp_path, "echo", "a job", "executor") == ["a job executor"]


def test_the_settings_of_the_dispatcher_are_known_and_its_names_agree() -> None:
    settings = read_spark_defaults(DISPATCHER["ConfigMap"]["data"]["cluster.conf"])
    Configuration.from_dict(settings).validate()
    (container,) = DISPATCHER["Deployment"]["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    service = DISPATCHER["Service"]
    assert settings["rest.port"] == str(port["containerPort"]) == str(service["spec"]["ports"][0]["port"])
    assert settings["rest.address"] == "{name}.{namespace}.svc".format(**service["metadata"])
    assert service["spec"]["selector"] == DISPATCHER["Deployment"]["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize("deployment", [of_kind("Deployment"), DISPATCHER["Deployment"]], ids=["job", "dispatcher"])
def test_probes_ask_paths_that_need_no_token(deployment: dict[str, Any]) -> None:
    open_paths = {route.path for route in ROUTES if route.is_open}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    probes = [value["httpGet"] for name, value in container.items() if name.endswith("Probe")]
    assert {probe["path"] for probe in probes} == open_paths == {"/healthz", "/readyz"}
    assert {probe["port"] for probe in probes} == {port["name"] for port in container["ports"]}


def command_of(deployment: dict[str, Any], tmp_path: Path) -> list[str]:
    """What a container runs as headrace, word by word, once the token is in its place."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    for name in ("install", "headrace"):
        (tmp_path / name).write_text('#!/bin/sh\nfor word do echo "$word"; done\n')
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "POD_NAME": "a-pod"}
    ran = subprocess.run(container["args"], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


@pytest.mark.parametrize("deployment", [of_kind("Deployment"), DISPATCHER["Deployment"]], ids=["job", "dispatcher"])
def test_the_command_is_one_that_there_is(deployment: dict[str, Any], tmp_path: Path) -> None:
    *installed, command = "\n".join(command_of(deployment, tmp_path)).partition("/tmp/token\n")
    assert installed[0] == "-m\n600\n/etc/headrace-token/token\n"
    words = command.split("\n")
    result = CliRunner().invoke(app, [*words[: 2 if "cluster" in words else 1], "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    given = [word for word in words if word.startswith("--")]
    assert given == ["--properties-file"]
    assert all(option in unstyle(result.output) for option in given)


UNIT = ROOT / "examples" / "systemd" / "headrace-cluster.service"


def test_the_unit_of_systemd(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    words = shlex.split(unit["Service"]["ExecStart"])
    result = CliRunner().invoke(app, [*words[1:3], "--help"], env={"COLUMNS": "200"})
    assert words[1:3] == ["cluster", "run"]
    assert all(option in unstyle(result.output) for option in words if option.startswith("--"))
    assert int(unit["Service"]["TimeoutStopSec"]) > server_options.CLUSTER_STOP_TIMEOUT.default / 1000
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    there = tmp_path / UNIT.name
    runnable = UNIT.read_text().replace(words[0], shutil.which("true") or "/bin/true")
    there.write_text(runnable.replace("User=headrace", "User=root"))
    checked = subprocess.run([analyze, "verify", str(there)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
