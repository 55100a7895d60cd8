"""``JobID``: what tells one job from another."""

import re
import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from headrace.common.errors import InvalidProgramError
from headrace.common.public_module import public_module

__all__ = ["JobID"]

_FORM: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class JobID:
    """16 random bytes in hexadecimal, as in Flink.

    Raises:
        InvalidProgramError: when ``hex`` is anything else.

    Examples:
        >>> from headrace.common import JobID
        >>> print(JobID("0123456789abcdef0123456789abcdef"))
        0123456789abcdef0123456789abcdef
        >>> JobID() == JobID()
        False
    """

    hex: str = field(default_factory=partial(secrets.token_hex, 16))

    def __post_init__(self) -> None:
        if not _FORM.fullmatch(self.hex):
            raise InvalidProgramError(f"a job id is 32 hexadecimal digits in lower case, not {self.hex!r}")

    def __str__(self) -> str:
        return self.hex


public_module(__name__)
