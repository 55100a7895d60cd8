"""Credentials for object stores: those of a profile of ``~/.aws``, and whether there are any.

The client of the store finds most of them itself. It does not read profiles, and its credential providers that do need
``boto3``, cannot go to tasks, which may have no ``~/.aws``, and leave out the endpoint. So a profile's static keys,
region and endpoint become options, in the driver. Without credentials the client asks for a machine's role, long in
vain: that is told at once, after looking for what the client looks for: options, environment variables, a file, and the
service of the cloud that gives machines and pods their role.
"""

import configparser
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.common.errors import CheckpointStorageError

PROFILE: Final = "profile"
"""The option that names a profile; empty when that was looked at before."""

_KEYS: Final = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_ROLE: Final = {"role_arn": "role_arn", "web_identity_token_file": "web_identity_token_file"}

_NEEDS_OTHERS: Final = ("sso_session", "sso_start_url", "credential_process", "credential_source", "source_profile")
"""What only the tools of AWS can make keys of."""

_S3_ENDPOINT: Final = re.compile(r"\bs3\s*=\s*\n(?:.*\n)*?\s*endpoint_url\s*=\s*(\S+)")

_METADATA: Final = "http://169.254.169.254"
_METADATA_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Cloud:
    """The places of credentials for a kind of store.

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


def with_profile(options: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Options for S3, and what the profile says that they leave open; environment variables win over a default profile.

    Args:
        options: by the names of the client, and :data:`PROFILE`.
        environment: variables of the process.

    Raises:
        CheckpointStorageError: when there is no such profile, or only the tools of AWS could make keys of it.
    """
    found = dict(options)
    chosen = found.pop(PROFILE, None)
    if chosen == "":
        return found
    name = chosen or environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    profile = _profile(name, environment)
    if not profile:
        return found
    for variable, key, value in (
        ("AWS_REGION", "region", profile.get("region")),
        ("AWS_ENDPOINT_URL", "endpoint", _endpoint(profile, environment)),
    ):
        is_said = key in options or f"{key}_url" in options or f"default_{key}" in options
        in_environment = chosen is None and {variable, f"{variable}_S3", "AWS_DEFAULT_REGION"} & environment.keys()
        if value and not is_said and not in_environment:
            found[key] = value
    is_elsewhere = any(key in options for key in CREDENTIAL_OPTIONS_OF_S3)
    if is_elsewhere or (chosen is None and any(environment.get(key) for key in CREDENTIALS_OF_AWS)):
        return found
    return found | _credentials(name or "default", profile)


def _profile(name: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Read a profile from the two files; the credentials file wins."""
    config = _parsed(environment.get("AWS_CONFIG_FILE") or "~/.aws/config")
    credentials = _parsed(environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")
    wanted = name or "default"
    section = "default" if wanted == "default" and "profile default" not in config else f"profile {wanted}"
    if name is not None and section not in config and wanted not in credentials:
        raise CheckpointStorageError(
            f"there is no profile {name!r} in ~/.aws/config and ~/.aws/credentials (or the files that AWS_CONFIG_FILE "
            "and AWS_SHARED_CREDENTIALS_FILE name); it is asked for by AWS_PROFILE or headrace.storage.profile"
        )
    return config.get(section, {}) | credentials.get(wanted, {})


def _endpoint(profile: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    services = profile.get("services")
    if services is not None:
        config = _parsed(environment.get("AWS_CONFIG_FILE") or "~/.aws/config")
        content = "\n".join(f"{key} = {value}" for key, value in config.get(f"services {services}", {}).items())
        found = _S3_ENDPOINT.search(content)
        if found is not None:
            return found[1]
    return profile.get("endpoint_url")


def _credentials(name: str, profile: Mapping[str, str]) -> dict[str, str]:
    found = {ours: profile[theirs] for theirs, ours in _KEYS.items() if theirs in profile}
    if found:
        return found
    if _ROLE.keys() <= profile.keys():
        return {ours: profile[theirs] for theirs, ours in _ROLE.items()}
    for key in (*_NEEDS_OTHERS, *_ROLE):
        if key in profile:
            raise CheckpointStorageError(
                f"profile {name!r} of ~/.aws has no keys of its own, but {key}, which the client of S3 cannot use. "
                "Have AWS's tools make keys of it "
                f'(eval "$(aws configure export-credentials --profile {name} --format env)"), '
                "which end after some hours; or give the machine or the pod a role"
            )
    return {}


def _parsed(path: str) -> dict[str, dict[str, str]]:
    """The sections of a file; none when it is missing.

    Raises:
        CheckpointStorageError: when it cannot be read.
    """
    parser = configparser.RawConfigParser(default_section="", strict=False)
    file = Path(path).expanduser()
    try:
        parser.read_string(file.read_text(encoding="utf-8"), str(file))
    except FileNotFoundError:
        return {}
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        line = str(error).partition("\n")[0]  # what follows may be a secret
        raise CheckpointStorageError(f"{file} cannot be read: {line}") from None
    return {" ".join(section.split()): dict(parser.items(section)) for section in parser.sections()}
