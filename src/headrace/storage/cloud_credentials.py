"""Whether there are credentials for an object store; without them its client asks for a machine's role, long in vain.

What is looked for is what the client looks for: options, environment variables, a file, and the service of the cloud
that gives machines and pods their role.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_METADATA: Final = "http://169.254.169.254"
_METADATA_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Cloud:
    """Where credentials for a kind of store come from.

    Attributes:
        options: how the names of options end any of which says it.
        variables: any of which says it.
        file: of the user's tools, in the home folder; empty where there is none.
        role: the path, method and headers of the request for the role of a machine.
        advice: where they are looked for, as users are told.
    """

    options: tuple[str, ...]
    variables: tuple[str, ...]
    file: str
    role: tuple[str, str, Mapping[str, str]]
    advice: str


CREDENTIALS_OF_AWS: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Environment variables any of which says where credentials for S3 are."""

CREDENTIAL_OPTIONS_OF_S3: Final = (
    "access_key_id",
    "web_identity_token_file",
    "container_credentials_relative_uri",
    "container_credentials_full_uri",
    "skip_signature",
)
"""Options any of which says the same."""

_AWS: Final = _Cloud(
    options=(*CREDENTIAL_OPTIONS_OF_S3, "metadata_endpoint", "imdsv1_fallback"),
    variables=CREDENTIALS_OF_AWS,
    file="",
    role=("/latest/api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}),
    advice="headrace.storage.access-key-id and -secret-access-key, in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in "
    "the profile of ~/.aws (AWS_PROFILE), in the role of a pod or container",
)
_GOOGLE: Final = _Cloud(
    options=("service_account", "service_account_path", "service_account_key", "credentials", "skip_signature"),
    variables=(
        "GCE_METADATA_HOST",
        "GCE_METADATA_IP",
        "GCE_METADATA_ROOT",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SKIP_SIGNATURE",
        "SERVICE_ACCOUNT",
    ),
    file=".config/gcloud/application_default_credentials.json",
    role=(
        "/computeMetadata/v1/instance/service-accounts/default/token",
        "GET",
        {"Metadata-Flavor": "Google"},
    ),
    advice="headrace.storage.google-service-account (the path of a key file), in GOOGLE_APPLICATION_CREDENTIALS, in "
    "what 'gcloud auth application-default login' leaves in ~/.config/gcloud",
)
_AZURE: Final = _Cloud(
    options=(
        "access_key",
        "account_key",
        "client_id",
        "endpoint",  # of managed identities, or of the emulator
        "federated_token_file",
        "master_key",
        "sas_key",
        "sas_token",
        "skip_signature",
        "token",
        "use_azure_cli",
        "use_emulator",
    ),
    variables=(
        "AZURE_CLIENT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_SKIP_SIGNATURE",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_STORAGE_USE_EMULATOR",
        "AZURE_USE_AZURE_CLI",
        "IDENTITY_ENDPOINT",
        "MSI_ENDPOINT",
    ),
    file="",
    role=(
        "/metadata/identity/oauth2/token?api-version=2019-08-01&resource=https%3A%2F%2Fstorage.azure.com",
        "GET",
        {"Metadata": "true"},
    ),
    advice="headrace.storage.azure-account-key, -sas-key, or -client-id with -client-secret and -tenant-id, in "
    "AZURE_STORAGE_ACCOUNT_KEY and the like, in the login of Azure's tools if headrace.storage.azure-use-azure-cli is "
    "true, in the identity of a pod",
)
_CLOUDS: Final = {"s3": _AWS, "s3a": _AWS, "gs": _GOOGLE, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE}

_ACCOUNT: Final = "account_name"
_ACCOUNT_VARIABLES: Final = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_USE_EMULATOR")


def check_credentials(
    bucket: str, options: Mapping[str, str], environment: Mapping[str, str] = os.environ, metadata: str = _METADATA
) -> None:
    """See to it that there are credentials for a store.

    Args:
        bucket: the URL of a bucket or container.
        options: by the names of the client.
        environment: variables of the process.
        metadata: the address of the service that gives machines their role.

    Raises:
        CheckpointStorageError: when there are none, saying where they are looked for; or no account is named, where a
            container belongs to one.
    """
    cloud = _CLOUDS.get(bucket.partition(":")[0])
    if cloud is None:
        return
    if cloud is _AZURE:
        _check_account(bucket, options, environment)
    is_said = any(key.endswith(cloud.options) for key in options) or any(map(environment.get, cloud.variables))
    if is_said or (cloud.file and Path(environment.get("HOME", "/"), cloud.file).exists()):
        return
    silence = _silence_of(cloud, metadata)
    if silence is not None:
        raise CheckpointStorageError(
            f"{bucket}: there are no credentials. They are looked for in {cloud.advice}, and in that of the machine "
            f"(no answer: {silence}). For a public bucket set headrace.storage.skip-signature to true"
        )


def _check_account(bucket: str, options: Mapping[str, str], environment: Mapping[str, str]) -> None:
    is_said = any(key.endswith((_ACCOUNT, "use_emulator")) for key in options)
    if "@" not in bucket and not is_said and not any(map(environment.get, _ACCOUNT_VARIABLES)):
        raise CheckpointStorageError(
            f"{bucket}: a container is one of a storage account, and nothing says which: set "
            "headrace.storage.azure-account-name or AZURE_STORAGE_ACCOUNT_NAME, or write "
            "abfss://<container>@<account>.dfs.core.windows.net/<folder>"
        )


def _silence_of(cloud: _Cloud, metadata: str) -> object:
    """Why a machine has no role; None when it has one."""
    path, method, headers = cloud.role
    request = urllib.request.Request(f"{metadata}{path}", method=method, headers=dict(headers))
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=_METADATA_SECONDS):
            return None
    except OSError as error:
        return getattr(error, "reason", None) or error
