"""Which keys of a configuration say how storages are reached: headrace's own, Flink's and Hadoop's."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from headrace.common.options import STORAGE_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping

_HADOOP: Final = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint": "endpoint",
    "endpoint.region": "region",
    "path.style.access": "virtual_hosted_style_request",
}
"""What S3A calls what an option of ours says."""

_FLINK: Final = _HADOOP | {
    "access-key": "access_key_id",
    "secret-key": "secret_access_key",
    "region": "region",
    "path-style-access": "virtual_hosted_style_request",
}

_ALIASES: Final = {
    "s3.": _FLINK,
    "s3a.": _FLINK,
    "fs.s3a.": _HADOOP,
    "spark.hadoop.fs.s3a.": _HADOOP,
}
"""Namespaces of others, the first of which wins. What Spark's has besides is Spark's own affair."""

_SSL: Final = "connection.ssl.enabled"
"""Of S3A, whose endpoints need no scheme."""

_HADOOP_KEYS: Final = ("dfs.", "hadoop.", "fs.defaultFS", "fs.permissions.", "fs.viewfs.")
"""How settings of Hadoop begin that are for HDFS; they are handed on as they are."""

_OF_SPARK: Final = "spark.hadoop."

_OURS: Final = (STORAGE_NAMESPACE, *_ALIASES)


def is_storage_key(key: str) -> bool:
    """Whether a key may hold what nobody but the client of a store should see."""
    return key.startswith(_OURS)


def is_hadoop_key(name: str) -> bool:
    """Whether an option of a storage is a setting of Hadoop for HDFS."""
    return name.startswith(_HADOOP_KEYS)


def storage_options(values: Mapping[str, str]) -> dict[str, str]:
    """What the clients of storages are told.

    Args:
        values: all keys and values of a configuration.

    Returns:
        Values by the names that the clients have; those for S3 that come from others' keys begin with ``aws_``.
    """
    own = _hadoop_settings(values, _OF_SPARK) | _hadoop_settings(values, STORAGE_NAMESPACE)
    own |= {
        name.replace("-", "_").lower(): value
        for key, value in values.items()
        if key.startswith(STORAGE_NAMESPACE) and not is_hadoop_key(name := key.removeprefix(STORAGE_NAMESPACE))
    }
    said = {key.removeprefix("aws_") for key in own} | ({"endpoint"} if "endpoint_url" in own else set())
    for namespace, names in _ALIASES.items():
        for suffix, name in names.items():
            value = values.get(namespace + suffix)
            if value is not None and name not in said:
                own[f"aws_{name}"] = _translated(name, value, values.get(namespace + _SSL, "true"))
                said.add(name)
    return own


def problem_of(key: str) -> str | None:
    """What is wrong with a key in a namespace of others that nothing would come of; None when nothing is.

    An unknown key that begins with ``headrace.storage.`` is found by the client of the store, which knows them.
    """
    for namespace, names in _ALIASES.items():
        suffix = key.removeprefix(namespace)
        if suffix == key or namespace.startswith("spark."):
            continue
        if suffix in names or suffix == _SSL:
            return None
        close = difflib.get_close_matches(suffix, names, n=2, cutoff=0.5)
        known = " or ".join(namespace + name for name in close) if close else ", ".join(map(namespace.__add__, names))
        meant = f"did you mean {known}?" if close else f"known are {known}."
        return f"{key} is not an option of headrace: {meant} All that S3's client knows begins with {STORAGE_NAMESPACE}"
    return None


def _hadoop_settings(values: Mapping[str, str], namespace: str) -> dict[str, str]:
    names = ((key.removeprefix(namespace), value) for key, value in values.items() if key.startswith(namespace))
    return {name: value for name, value in names if is_hadoop_key(name)}


def _translated(name: str, value: str, ssl: str) -> str:
    if name == "virtual_hosted_style_request":  # the opposite of a path style
        return {"true": "false", "false": "true"}.get(value.strip().lower(), value)
    if name == "endpoint" and "://" not in value:
        return f"http{'' if ssl.strip().lower() == 'false' else 's'}://{value}"
    return value
