"""The lists of options in ``docs/configuration.md``; ``python -m tests.docs.options_table`` writes them anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common import config_values
from headrace.common.flink_options import FLINK_OPTIONS
from headrace.common.options import OPTIONS
from tests.docs.documents import DOCS

if TYPE_CHECKING:
    from headrace.common.config_options import ConfigOption

PAGE = DOCS / "configuration.md"
NAME = "options"
FLINK_NAME = "options of flink"

_UNITS = {
    "duration": [(3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")],
    "memory size": [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"), (1, "b")],
}


def table() -> str:
    """One row for each option, in the order of their definition."""
    rows = [
        f"| `{option.key}` | {_values(option)} | {_default(option)} | {option.description} |".replace("  ", " ")
        for option in OPTIONS.values()
    ]
    return "\n".join(["| option | value | default | what it is for |", "|---|---|---|---|", *rows]) + "\n"


def flink_list() -> str:
    """One line for each option of Flink that is kept and changes nothing."""
    options = [option for key, option in FLINK_OPTIONS.items() if key == option.key]
    return "".join(f"- `{option.key}`: {option.reason}\n" for option in options)


def _kind(option: ConfigOption[Any]) -> str | None:
    if option.parse in (config_values.duration, config_values.positive_duration):
        return "duration"
    return "memory size" if option.parse is config_values.memory_size else None


def _values(option: ConfigOption[Any]) -> str:
    kind = _kind(option)
    if kind is not None:
        return kind
    try:
        option.parse("\0")
    except ValueError as error:
        return str(error)
    return "text"


def _default(option: ConfigOption[Any]) -> str:
    value = option.default
    if value is None:
        return "not set"
    kind = _kind(option)
    if kind is not None:
        size, unit = next((size, unit) for size, unit in _UNITS[kind] if value % size == 0 and (value or size == 1))
        return f"`{value // size} {unit}`"
    return f"`{getattr(value, 'name', str(value).lower() if isinstance(value, bool) else value)}`"


def main() -> None:
    page = PAGE.read_text()
    for name, content in ((NAME, table()), (FLINK_NAME, flink_list())):
        before, rest = page.split(f"<!-- {name} -->\n", 1)
        _, after = rest.split(f"<!-- /{name} -->", 1)
        page = f"{before}<!-- {name} -->\n{content}<!-- /{name} -->{after}"
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
