"""Profiles of ``~/.aws/config`` and ``~/.aws/credentials``: static keys, the region and the endpoint of S3."""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CheckpointStorageError
from headrace.storage.cloud_credentials import CREDENTIAL_OPTIONS_OF_S3, CREDENTIALS_OF_AWS

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """What the two files say of a profile; the credentials file wins."""
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
