"""Where the user's own code is called, and how its failures are told.

A failure of user code is not a fault of the machine: running the task again would fail again. It is carried to the
driver as a :class:`UserFunctionError` that names the operator, the user's line and the record.
"""

from __future__ import annotations

import reprlib
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.common.call_site import of_traceback
from headrace.common.errors import HeadraceError, StateCorruptedError, UserFunctionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.operators.base import OperatorContext

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 200
_repr.maxtuple = _repr.maxlist = _repr.maxdict = 20

_NO_RECORD = object()


def user_error(error: BaseException, context: OperatorContext, record: Any = _NO_RECORD) -> HeadraceError:
    """The failure of a user function, told so that its author can mend it; damage to state files stays what it is.

    Args:
        error: what the function raised.
        context: the operator that called it.
        record: the record that it was called with, if there was one.
    """
    if isinstance(error, UserFunctionError | StateCorruptedError):
        return error
    site = of_traceback(error.__traceback__)
    lines = [
        f"operator {context.name!r} (uid {context.uid}, subtask {context.subtask}) failed",
        f"  {type(error).__name__}: {error}",
        f"  at {site}" if site else "",
        "" if record is _NO_RECORD else f"  record: {_repr.repr(record)}",
        f"  operator defined at {context.call_site}",
    ]
    wrapped = UserFunctionError("\n".join(line for line in lines if line))
    wrapped.add_note("".join(traceback.format_exception(error)).rstrip())
    return wrapped


@contextmanager
def calling_user_code(context: OperatorContext) -> Iterator[None]:
    """Turns whatever is raised inside into a :class:`UserFunctionError`, except damage to state files."""
    try:
        yield
    except StateCorruptedError:
        raise
    except Exception as error:
        raise user_error(error, context) from error
