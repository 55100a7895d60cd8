"""How HDFS is reached: Hadoop's settings, from its own files on the driver's machine and from the job's."""

from __future__ import annotations

import difflib
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CheckpointStorageError
from headrace.common.storage_keys import is_hadoop_key

if TYPE_CHECKING:
    from collections.abc import Mapping

FAMILY: Final = "hdfs_"
"""How options begin that are for HDFS alone and are none of Hadoop's."""

PRINCIPAL: Final = "hdfs_kerberos_principal"
KEYTAB: Final = "hdfs_kerberos_keytab"
TICKET_CACHE: Final = "hdfs_kerberos_cache"
_CONF_DIR: Final = "hdfs_conf_dir"

_NAMES: Final = frozenset({PRINCIPAL, KEYTAB, TICKET_CACHE, _CONF_DIR})

_DEFAULTS: Final = {"dfs.client.failover.max.attempts": "4", "dfs.client.socket-timeout": "30000"}
"""A name node that refuses connections is asked for some 20 s; then the epoch fails, and begins again. The other one is
how long a data node may take to answer a reader, who asks the next one then, well before the request is given up."""

_USED: Final = (
    "dfs.client.",
    "dfs.data.transfer.protection",
    "dfs.ha.namenodes.",
    "dfs.namenode.rpc-address",
    "dfs.nameservices",
    "fs.defaultFS",
    "fs.viewfs.mounttable.",
    "hadoop.security.authentication",
    "hadoop.security.key.provider.path",
)
"""What of Hadoop's files says how a cluster is reached; so only this goes to tasks, where the files may be missing."""


def is_of_hdfs(key: str) -> bool:
    """Whether an option is for HDFS alone."""
    return key.startswith(FAMILY) or is_hadoop_key(key)


def complete_settings(options: Mapping[str, str]) -> dict[str, str]:
    """What a client is told: Hadoop's settings by their own names, and the options of the family.

    Args:
        options: all options of storages; those for others are left out.

    Raises:
        CheckpointStorageError: when an option is unknown, or Hadoop's files cannot be read.
    """
    own = {key: value for key, value in options.items() if key.startswith(FAMILY)}
    for key in own.keys() - _NAMES:
        close = difflib.get_close_matches(key, _NAMES, n=2, cutoff=0.5)
        known = " or ".join(map(_shown, close or sorted(_NAMES)))
        raise CheckpointStorageError(f"{_shown(key)} is not an option of HDFS: did you mean {known}?")
    folder = own.pop(_CONF_DIR, None)
    return _DEFAULTS | _site_settings(folder) | {k: v for k, v in options.items() if is_hadoop_key(k)} | own


def _site_settings(folder: str | None) -> dict[str, str]:
    """What Hadoop's files say."""
    found: dict[str, str] = {}
    place = folder or _usual_folder()
    for name in ("core-site.xml", "hdfs-site.xml") if place else ():
        path = Path(str(place), name)
        try:
            properties = ET.parse(path).getroot().iter("property")
        except FileNotFoundError as error:
            if folder is not None and name == "core-site.xml":
                raise CheckpointStorageError(f"{_shown(_CONF_DIR)}: there is no {path}") from error
            continue
        except (OSError, ET.ParseError) as error:
            raise CheckpointStorageError(f"Hadoop's settings cannot be read: {path}: {error}") from error
        pairs = ((item.findtext("name") or "", item.findtext("value") or "") for item in properties)
        found |= {key.strip(): value.strip() for key, value in pairs if key.strip().startswith(_USED)}
    return found


def _usual_folder() -> str | None:
    home = os.environ.get("HADOOP_HOME")
    return os.environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else None)


def _shown(key: str) -> str:
    return f"headrace.storage.{key.replace('_', '-')}"
