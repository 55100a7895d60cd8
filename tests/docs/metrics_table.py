"""The tables of metrics in ``docs/metrics.md``; ``python -m tests.docs.metrics_table`` writes them anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.common.plugins import PluginGroup
from headrace.metrics.scopes import ScopeKind
from headrace.reporters import sampler
from headrace.reporters.reporter import FLINK_FACTORIES, FLINK_TRACE_FACTORIES, METRIC_REPORTERS, TRACE_REPORTERS
from headrace.reporters.reporting import COMMON_OPTIONS
from tests.docs.documents import DOCS
from tests.docs.options_table import default_of, values_of

PAGE = DOCS / "metrics.md"

_HEADING = "| metric | kind | what it says |\n|---|---|---|\n"


def _rows(metrics: Mapping[str, sampler.OperatorMetric]) -> str:
    return _HEADING + "".join(
        f"| `{name}` | {each.kind.value} | {each.description} |\n" for name, each in metrics.items()
    )


def of_jobs() -> str:
    statuses = ", ".join(f"`{status.name.lower()}`" for status in sampler.MEASURED_STATUSES)
    rows = [f"| `{each.name}` | {each.kind.value} | {each.description} |" for each in sampler.JOB_METRICS]
    for suffix, description, _ in sampler.STATUS_METRICS.values():
        rows.append(f"| `<status>{suffix}` | gauge | {description} With {statuses} for `<status>`. |")
    return _HEADING + "\n".join(rows) + "\n"


def _in(scope: ScopeKind) -> str:
    return _rows({name: each for name, each in sampler.OPERATOR_METRICS.items() if scope in each.scopes})


def of_operators() -> str:
    return _in(ScopeKind.OPERATOR)


def of_tasks() -> str:
    return _in(ScopeKind.TASK)


def of_splits() -> str:
    return _rows(sampler.SPLIT_METRICS)


def of_drivers() -> str:
    rows = (f"| `{each.name}` | {each.kind.value} | {each.description} |\n" for each in sampler.JOB_MANAGER_METRICS)
    return _HEADING + "".join(rows)


def _reporters(group: PluginGroup[Any], by_factory: Mapping[str, str]) -> str:
    factories = {name: factory for factory, name in by_factory.items()}
    rows = []
    for name in group.built_in:
        reporter = group.load(name)
        required = [f"`{option.key}`: {option.description}" for option in reporter.required_options]
        optional = [f"`{each.key}` ({default_of(each)}): {each.description}" for each in reporter.optional_options]
        factory = factories[name].removeprefix("org.apache.flink.")
        rows.append(f"| `{name}` | `…{factory}` | {'<br>'.join(required + optional) or 'none'} |")
    return "| reporter | Flink's factory | its options |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def reporters() -> str:
    return _reporters(METRIC_REPORTERS, FLINK_FACTORIES)


def trace_reporters() -> str:
    return _reporters(TRACE_REPORTERS, FLINK_TRACE_FACTORIES)


def reporter_options() -> str:
    rows = (
        f"| `{option.key}` | {values_of(option)} | {default_of(option)} | {option.description} |"
        for option in COMMON_OPTIONS
    )
    return "| option | value | default | what it is for |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


LISTS = {
    "metrics of jobs": of_jobs,
    "metrics of drivers": of_drivers,
    "metrics of operators": of_operators,
    "metrics of tasks": of_tasks,
    "metrics of splits": of_splits,
    "reporters": reporters,
    "options of reporters": reporter_options,
    "trace reporters": trace_reporters,
}
"""The tables, by the comments around them."""


def main() -> None:
    page = PAGE.read_text()
    for name, make in LISTS.items():
        before, rest = page.split(f"<!-- {name} -->\n", 1)
        _, after = rest.split(f"<!-- /{name} -->", 1)
        page = f"{before}<!-- {name} -->\n{make()}<!-- /{name} -->{after}"
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
