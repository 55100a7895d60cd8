"""Functions that say when a request is made again, under PyFlink's module path."""

from typing import Any

from headrace.common.public_module import public_module

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Return whether there is no result; for ``result_predicate`` of a strategy.

    Examples:
        >>> from headrace.datastream.async_retry_predicates import empty_result_predicate
        >>> empty_result_predicate([])
        True
    """
    return not result


def has_exception_predicate(error: BaseException | None) -> bool:
    """Return whether there is an exception, whichever it is; for ``exception_predicate`` of a strategy.

    Examples:
        >>> from headrace.datastream.async_retry_predicates import has_exception_predicate
        >>> has_exception_predicate(ValueError("no"))
        True
    """
    return error is not None


def exception_type_predicate(error: BaseException | None, expected_error_type: type[BaseException]) -> bool:
    """Return whether there is an exception of a type; for ``exception_predicate`` of a strategy, with the type bound.

    Examples:
        >>> from functools import partial
        >>> from headrace.datastream.async_retry_predicates import exception_type_predicate
        >>> is_away = partial(exception_type_predicate, expected_error_type=OSError)
        >>> is_away(ConnectionError("away"))
        True
    """
    return isinstance(error, expected_error_type)


public_module(__name__)
