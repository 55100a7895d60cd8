"""The files in ``examples/kubernetes``: manifests as Kubernetes wants them, and an entry point as Spark wants it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.common.configuration import Configuration
from headrace.runtime.spark.settings import read_spark_defaults
from tests.docs.documents import ROOT

FOLDER = ROOT / "examples" / "kubernetes"
DOCUMENTS = [
    document for name in ("rbac.yaml", "job.yaml") for document in yaml.safe_load_all((FOLDER / name).read_text())
]


def of_kind(kind: str) -> Any:
    (found,) = (document for document in DOCUMENTS if document["kind"] == kind)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["kind"])
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
    ports = {settings["spark.driver.port"], settings["spark.driver.blockManager.port"]}
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
