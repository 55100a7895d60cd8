"""The arguments of functions of JSON as plans show them: their clauses are flags among them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from headrace.table.logical.scalars import Call
from headrace.table.parse.tree.json import JsonWrapper

_WRAPPERS: Final = {
    JsonWrapper.WITHOUT: "WITHOUT_ARRAY",
    JsonWrapper.CONDITIONAL: "WITH_CONDITIONAL_ARRAY",
    JsonWrapper.UNCONDITIONAL: "WITH_UNCONDITIONAL_ARRAY",
}


def json_arguments(call: Call, operands: Sequence[str], flag: Callable[[str], str]) -> list[str] | None:
    """The arguments of a function of JSON; None for another function.

    Args:
        call: the call.
        operands: the texts of its operands.
        flag: the text of a keyword.
    """
    rule = _RULES.get(call.function)
    return None if rule is None else list(rule(dict(call.options), operands, flag))


def _made(options: dict[str, Any], operands: Sequence[str], flag: Callable[[str], str]) -> Iterator[str]:
    yield flag(f"{options['on_null']}_ON_NULL")
    yield from operands


def _value(options: dict[str, Any], operands: Sequence[str], flag: Callable[[str], str]) -> Iterator[str]:
    defaults = iter(operands[2:])
    yield from operands[:2]
    for name, clause in (("on_empty", "ON EMPTY"), ("on_error", "ON ERROR")):
        if name in options:
            yield flag(options[name].name)
            if options[name].name == "DEFAULT":
                yield next(defaults)
            yield flag(clause)


def _query(options: dict[str, Any], operands: Sequence[str], flag: Callable[[str], str]) -> Iterator[str]:
    yield from operands
    yield flag(_WRAPPERS[options.get("wrapper", JsonWrapper.WITHOUT)])
    for name in ("on_empty", "on_error"):
        kind = options[name].name if name in options else "NULL"
        yield flag(f"SqlJsonQueryEmptyOrErrorBehavior[{kind}]")


def _exists(options: dict[str, Any], operands: Sequence[str], flag: Callable[[str], str]) -> Iterator[str]:
    yield from operands
    if "on_error" in options:
        yield flag(options["on_error"].name)


_RULES: Final = {
    "JSON_OBJECT": _made,
    "JSON_ARRAY": _made,
    "JSON_VALUE": _value,
    "JSON_QUERY": _query,
    "JSON_EXISTS": _exists,
}
