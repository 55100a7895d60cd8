"""Scopes of metrics, as Flink's: what a metric belongs to, its labels, and how it is written as one text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.common import options
from headrace.common.config_options import ConfigOption
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.metrics.registry import MetricGroupName

_PARENT: Final = "*"


class ScopeKind(Enum):
    """The kinds of owners of metrics; the value is the logical scope, part by part."""

    JOB_MANAGER = ("jobmanager",)
    JOB = ("jobmanager", "job")
    TASK_MANAGER = ("taskmanager",)
    TASK_MANAGER_JOB = ("taskmanager", "job")
    TASK = ("taskmanager", "job", "task")
    OPERATOR = ("taskmanager", "job", "task", "operator")


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class MetricScope:
    """The owner of a metric. There is one object for each owner, so reporters may cache what they derive from it.

    Attributes:
        logical: the kind of it, part by part, with the names of groups.
        variables: labels: the job, the operator, the subtask and so on.
        components: how it is written as one text, part by part.
    """

    logical: tuple[str, ...]
    variables: Mapping[str, str]
    components: tuple[str, ...]

    def within(self, groups: Iterable[MetricGroupName]) -> MetricScope:
        """The scope of groups in it, from the outermost to the innermost."""
        logical, components, variables = list(self.logical), list(self.components), dict(self.variables)
        for name, which in groups:
            logical.append(name)
            components.append(name)
            if which is not None:
                components.append(which)
                variables[name] = which
        return MetricScope(tuple(logical), variables, tuple(components))


_JOB_VARIABLES: Final = ("host", "job_id", "job_name")
_TASK_VARIABLES: Final = ("task_id", "task_name", "task_attempt_id", "task_attempt_num", "subtask_index")

_VARIABLES: Final[Mapping[ScopeKind, tuple[str, ...]]] = {
    ScopeKind.JOB_MANAGER: ("host",),
    ScopeKind.JOB: _JOB_VARIABLES,
    ScopeKind.TASK_MANAGER: ("host", "tm_id"),
    ScopeKind.TASK_MANAGER_JOB: ("tm_id", *_JOB_VARIABLES),
    ScopeKind.TASK: ("tm_id", *_JOB_VARIABLES, *_TASK_VARIABLES),
    ScopeKind.OPERATOR: ("tm_id", *_JOB_VARIABLES, *_TASK_VARIABLES, "operator_id", "operator_name"),
}

_OPTIONS: Final[Mapping[ScopeKind, tuple[ConfigOption[str], ScopeKind | None]]] = {
    ScopeKind.JOB_MANAGER: (options.METRIC_SCOPE_JOB_MANAGER, None),
    ScopeKind.JOB: (options.METRIC_SCOPE_JOB, ScopeKind.JOB_MANAGER),
    ScopeKind.TASK_MANAGER: (options.METRIC_SCOPE_TASK_MANAGER, None),
    ScopeKind.TASK_MANAGER_JOB: (options.METRIC_SCOPE_TASK_MANAGER_JOB, ScopeKind.TASK_MANAGER),
    ScopeKind.TASK: (options.METRIC_SCOPE_TASK, ScopeKind.TASK_MANAGER_JOB),
    ScopeKind.OPERATOR: (options.METRIC_SCOPE_OPERATOR, ScopeKind.TASK),
}
"""The option of each format, and the kind whose format ``*`` stands for at its beginning."""


class ScopeFormats:
    """The formats of a configuration, ``<host>.jobmanager.<job_name>`` say.

    Args:
        configuration: the job's.

    Raises:
        ConfigurationError: when one has a variable that metrics of its kind do not have.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._templates = {kind: _template(configuration, kind) for kind in ScopeKind}

    def scope(self, kind: ScopeKind, variables: Mapping[str, str]) -> MetricScope:
        """The scope of something.

        Args:
            kind: its kind.
            variables: its labels, of which it takes those of its kind.
        """
        own = {name: variables[name] for name in _VARIABLES[kind]}
        components = (own[part[1:-1]] if _is_variable(part) else part for part in self._templates[kind])
        return MetricScope(kind.value, own, tuple(components))


def _template(configuration: Configuration, kind: ScopeKind) -> tuple[str, ...]:
    """The parts of a format."""
    option, parent = _OPTIONS[kind]
    parts = tuple(configuration.get(option).split("."))
    if parts[0] == _PARENT and parent is not None:
        parts = (*_template(configuration, parent), *parts[1:])
    known = [f"<{name}>" for name in _VARIABLES[kind]]
    unknown = [part for part in parts if _is_variable(part) and part not in known]
    if unknown:
        raise ConfigurationError(f"{option.key}: there is no {unknown[0]}, only {', '.join(known)}")
    return parts


def _is_variable(part: str) -> bool:
    return part.startswith("<") and part.endswith(">")
