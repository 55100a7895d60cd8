"""Settings with which storages are reached: credentials for object stores, and Hadoop's settings for HDFS.

The client of an object store finds most credentials itself. It does not read profiles, and its credential providers
that do need ``boto3``, cannot go to tasks, which may have no ``~/.aws``, and leave out the endpoint. So a profile's
static keys, region and endpoint become options, in the driver. Without credentials the client requests a machine's
role, long in vain: that fails at once, after looking for what the client looks for: options, environment variables, a
file, and the service of the cloud that gives machines and pods their role.

The settings of HDFS come from Hadoop's own files on the driver's machine, and from the job's options.
"""

import configparser
import difflib
import os
import re
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from headrace.common.configuration import is_hadoop_key
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
"""The settings from which only the tools of AWS can make keys."""

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
        advice: where they are looked for, for messages.
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
    """The reason why a machine has no role; None when it has one."""
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


FAMILY: Final = "hdfs_"
"""The prefix of options for HDFS that are not Hadoop's."""

PRINCIPAL: Final = "hdfs_kerberos_principal"
KEYTAB: Final = "hdfs_kerberos_keytab"
TICKET_CACHE: Final = "hdfs_kerberos_cache"
_CONF_DIR: Final = "hdfs_conf_dir"

_NAMES: Final = frozenset({PRINCIPAL, KEYTAB, TICKET_CACHE, _CONF_DIR})

DEFAULT_SETTINGS: Final = {"dfs.client.failover.max.attempts": "4", "dfs.client.socket-timeout": "30000"}
"""A name node that refuses connections is tried for some 20 s; then the epoch fails, and begins again. The other one is
how long a data node may take to answer a reader, which tries the next one then, well before the request is given up."""

NAME_NODES: Final = "dfs.ha.namenodes."
"""The prefix of the key that lists the name nodes of a name service."""

_ADDRESS: Final = "dfs.namenode.rpc-address."
_DEFAULT_FS: Final = "fs.defaultFS"
_UMASK: Final = "fs.permissions.umask-mode"

_USED: Final = (
    "dfs.client.",
    "dfs.data.transfer.protection",
    NAME_NODES,
    "dfs.namenode.rpc-address",
    "dfs.nameservices",
    _DEFAULT_FS,
    _UMASK,
    "fs.viewfs.mounttable.",
    "hadoop.security.authentication",
    "hadoop.security.key.provider.path",
)
"""The settings of Hadoop's files that say how to reach a cluster; only these go to tasks, which may lack the files."""


def shown_option(key: str) -> str:
    """The name by which users know an option of a client."""
    return f"headrace.storage.{key.replace('_', '-')}"


def is_of_hdfs(key: str) -> bool:
    """Tell whether an option is for HDFS alone."""
    return key.startswith(FAMILY) or is_hadoop_key(key)


def complete_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of a client: Hadoop's by their own names, and the options of the family.

    Args:
        options: all options of storages; those for others are left out.

    Raises:
        CheckpointStorageError: when an option is unknown, or Hadoop's files cannot be read.
    """
    own = {key: value for key, value in options.items() if key.startswith(FAMILY)}
    for key in own.keys() - _NAMES:
        close = difflib.get_close_matches(key, _NAMES, n=2, cutoff=0.5)
        known = " or ".join(map(shown_option, close or sorted(_NAMES)))
        raise CheckpointStorageError(f"{shown_option(key)} is not an option of HDFS: did you mean {known}?")
    folder = own.pop(_CONF_DIR, None)
    settings = DEFAULT_SETTINGS | _site_settings(folder) | {k: v for k, v in options.items() if is_hadoop_key(k)} | own
    return {
        key: ",".join(map(str.strip, value.split(","))) if key.startswith(NAME_NODES) else value
        for key, value in settings.items()
    }


def check_settings(authority: str, settings: Mapping[str, str]) -> None:
    """See to it that settings say what the client has to know.

    Args:
        authority: the URI of the name service; that of ``fs.defaultFS`` when it has no name in it.
        settings: as :func:`complete_settings` gives them.

    Raises:
        CheckpointStorageError: saying what is missing, and where it is set.
    """
    umask_of(settings)
    if KEYTAB in settings and PRINCIPAL not in settings:
        raise CheckpointStorageError(
            f"{shown_option(KEYTAB)} needs {shown_option(PRINCIPAL)}, which says whose keytab it is"
        )
    name = urlsplit(authority).netloc
    if not name:
        default = settings.get(_DEFAULT_FS)
        if default is None:
            raise CheckpointStorageError(
                f"hdfs:/// is the file system of {_DEFAULT_FS}, and that is not set: {_where_to_set(_DEFAULT_FS)}; or "
                "write it into the URI, as hdfs://<name service or host:port>/<folder>"
            )
        if default.startswith("viewfs:"):
            return
        name = urlsplit(default).netloc
        if not default.startswith("hdfs:") or not name:
            raise CheckpointStorageError(
                f"{_DEFAULT_FS} is {default!r}, which is not on HDFS: write hdfs://<name service or host:port>/<folder>"
            )
    if ":" not in name:
        _check_name_service(name, settings)


def _check_name_service(name: str, settings: Mapping[str, str]) -> None:
    known = sorted(key.removeprefix(NAME_NODES) for key in settings if key.startswith(NAME_NODES))
    if name not in known:
        key = f"{NAME_NODES}{name}"
        others = f" (known are {', '.join(known)})" if known else ""
        raise CheckpointStorageError(
            f"hdfs://{name}: there is no name service {name!r}{others}, as {key} is not set: {_where_to_set(key)}, "
            f"with {_ADDRESS}{name}.<name node> for each. A name node by itself is given with its port: hdfs://{name}:8020"
        )
    keys = [f"{_ADDRESS}{name}.{node}" for node in settings[f"{NAME_NODES}{name}"].split(",")]
    if not any(key in settings for key in keys):
        raise CheckpointStorageError(
            f"hdfs://{name}: where its name nodes are is not said: {_where_to_set(' and '.join(keys))}"
        )
    for key in keys:
        if key in settings and not re.search(":[0-9]+$", settings[key]):
            raise CheckpointStorageError(f"{key} is {settings[key]!r}: it needs a port, 8020 as a rule")


def _where_to_set(key: str) -> str:
    place = _usual_folder()
    looked = f"{place} (HADOOP_CONF_DIR)" if place else "HADOOP_CONF_DIR (which is not set)"
    return (
        f"set {key} in the files of {looked} or of {shown_option(_CONF_DIR)}, or in the job, as headrace.storage.{key}"
    )


def umask_of(settings: Mapping[str, str]) -> int:
    """The umask of files that are made for all.

    Raises:
        CheckpointStorageError: when it is no umask.
    """
    text = settings.get(_UMASK, "022").strip()
    if re.fullmatch("[01]?[0-7]{3}", text):
        return int(text, 8)
    allowed = 0
    for clause in text.split(","):
        found = re.fullmatch(r"\s*([ugoa]+)=([rwx]*)\s*", clause)
        if found is None:
            raise CheckpointStorageError(f"{_UMASK} is {text!r}: expected 022, or u=rwx,g=rx,o=rx, say")
        bits = sum({"r": 4, "w": 2, "x": 1}[letter] for letter in set(found[2]))
        for who in set(found[1].replace("a", "ugo")):
            allowed |= bits << {"u": 6, "g": 3, "o": 0}[who]
    return ~allowed & 0o777


def _site_settings(folder: str | None) -> dict[str, str]:
    """Read the settings in Hadoop's files."""
    found: dict[str, str] = {}
    place = folder or _usual_folder()
    for name in ("core-site.xml", "hdfs-site.xml") if place else ():
        path = Path(str(place), name)
        try:
            properties = ET.parse(path).getroot().iter("property")
        except FileNotFoundError as error:
            if folder is not None and name == "core-site.xml":
                raise CheckpointStorageError(f"{shown_option(_CONF_DIR)}: there is no {path}") from error
            continue
        except (OSError, ET.ParseError) as error:
            raise CheckpointStorageError(f"Hadoop's settings cannot be read: {path}: {error}") from error
        pairs = ((item.findtext("name") or "", item.findtext("value") or "") for item in properties)
        found |= {key.strip(): value.strip() for key, value in pairs if key.strip().startswith(_USED)}
    return found


def _usual_folder() -> str | None:
    home = os.environ.get("HADOOP_HOME")
    return os.environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else None)
