"""What the driver's halves of sinks raise, told so that it can be seen which sink it was."""

from __future__ import annotations

from headrace.common.call_site import of_traceback
from headrace.common.errors import (
    ConfigurationError,
    HeadraceError,
    InfrastructureError,
    InvalidProgramError,
    LogError,
    UserFunctionError,
)
from headrace.operators.user_code import text_of


def label_of(name: str, uid: str) -> str:
    """What a sink is called in messages."""
    return f"sink {name!r} (uid {uid})"


def told(what: str, error: Exception) -> Exception:
    """What to raise in the place of an error.

    What headrace says itself stays what it is; a fault of a machine or a connection may pass; anything else is the
    failure of a function of the user.

    Args:
        what: what was done, with the sink.
        error: what was raised.
    """
    if isinstance(error, ConfigurationError | LogError) or type(error) in (InfrastructureError, InvalidProgramError):
        return type(error)(f"{what} failed: {error}")
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, OSError):
        return InfrastructureError(f"{what} failed: {error}")
    site = of_traceback(error.__traceback__)
    where = f"\n  at {site}" if site else ""
    return UserFunctionError(f"{what} failed\n  {type(error).__name__}: {text_of(error)}{where}")
