"""How HDFS is reached: Hadoop's settings, from its own files on the driver's machine and from the job's."""

from __future__ import annotations

import difflib
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

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

NAME_NODES: Final = "dfs.ha.namenodes."
"""How the key begins that names the name nodes of a name service."""

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
    settings = _DEFAULTS | _site_settings(folder) | {k: v for k, v in options.items() if is_hadoop_key(k)} | own
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
        raise CheckpointStorageError(f"{_shown(KEYTAB)} needs {_shown(PRINCIPAL)}, which says whose keytab it is")
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
    return f"set {key} in the files of {looked} or of {_shown(_CONF_DIR)}, or in the job, as headrace.storage.{key}"


def umask_of(settings: Mapping[str, str]) -> int:
    """What is taken from the permissions of files that are made for all.

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
