"""The lists of options in ``docs/configuration.md``; ``python -m tests.docs.options_table`` writes them anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common import config_options
from headrace.common.flink_options import FAMILIES, FLINK_OPTIONS, REFUSED_OPTIONS
from headrace.common.options import OPTIONS
from tests.docs.documents import DOCS

if TYPE_CHECKING:
    from headrace.common.config_options import ConfigOption

PAGE = DOCS / "configuration.md"

_UNITS = {
    "duration": [(3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")],
    "memory size": [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"), (1, "b")],
}


def table() -> str:
    """One row for each option, in the order of their definition."""
    rows = [
        f"| `{option.key}` | {values_of(option)} | {default_of(option)} | {option.description}{_older(option)} |"
        for option in OPTIONS.values()
    ]
    return "\n".join(["| option | value | default | what it is for |", "|---|---|---|---|", *rows]) + "\n"


def flink_list() -> str:
    """One line for each option of Flink that is kept and changes nothing."""
    options = [option for key, option in FLINK_OPTIONS.items() if key == option.key]
    return "".join(f"- `{option.key}`: {option.reason}\n" for option in options)


def refused_list() -> str:
    """One line for each option of Flink that is refused."""
    return "".join(f"- `{key}`: {advice}\n" for key, advice in REFUSED_OPTIONS.items())


def families_list() -> str:
    """One line for each group of options of Flink without effect."""
    return "".join(f"- `{prefix}*`: {reason}\n" for prefix, reason in FAMILIES.items())


def _older(option: ConfigOption[Any]) -> str:
    keys = ", ".join(f"`{key}`" for key in option.deprecated_keys)
    return f" Flink's older keys do as well: {keys}." if keys else ""


def _kind(option: ConfigOption[Any]) -> str | None:
    if option.parse in (config_options.duration, config_options.positive_duration):
        return "duration"
    return "memory size" if option.parse is config_options.memory_size else None


def values_of(option: ConfigOption[Any]) -> str:
    kind = _kind(option)
    if kind is not None:
        return kind
    try:
        option.parse("\0")
    except ValueError as error:
        return str(error)
    return "text"


def default_of(option: ConfigOption[Any]) -> str:
    value = option.default
    if value is None or value in ("", (), {}):
        return "not set"
    kind = _kind(option)
    if kind is not None:
        size, unit = next((size, unit) for size, unit in _UNITS[kind] if value % size == 0 and (value or size == 1))
        return f"`{value // size} {unit}`"
    if isinstance(value, tuple):
        value = ";".join(map(str, value))
    return f"`{getattr(value, 'name', str(value).lower() if isinstance(value, bool) else value)}`"


LISTS = {
    "options": table,
    "options of flink": flink_list,
    "options of flink by group": families_list,
    "options of flink that are refused": refused_list,
}
"""The lists, by the comments around them."""


def main() -> None:
    page = PAGE.read_text()
    for name, make in LISTS.items():
        before, rest = page.split(f"<!-- {name} -->\n", 1)
        _, after = rest.split(f"<!-- /{name} -->", 1)
        page = f"{before}<!-- {name} -->\n{make()}<!-- /{name} -->{after}"
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
