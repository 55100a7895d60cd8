"""The type variables of generic classes: where a program does not say what one stands for, it is ``Any``.

So ``DataStream`` is ``DataStream[Any]`` under every type checker, and a program without parameters, as PyFlink's are,
passes even where a checker asks for all of them.
"""

from __future__ import annotations

import sys
import typing
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 13):
    from typing import TypeVar
elif TYPE_CHECKING:
    from typing_extensions import TypeVar
else:

    def TypeVar(name: str, *, default: object, **variance: bool) -> typing.TypeVar:
        """A type variable; before Python 3.13 they have no default at run time."""
        del default
        return typing.TypeVar(name, **variance)


T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", covariant=True, default=Any)
T_contra = TypeVar("T_contra", contravariant=True, default=Any)
T2_co = TypeVar("T2_co", covariant=True, default=Any)
"""The records of the second one of two streams."""

K = TypeVar("K", default=Any)
K_co = TypeVar("K_co", covariant=True, default=Any)
K_contra = TypeVar("K_contra", contravariant=True, default=Any)

V = TypeVar("V", default=Any)
V_co = TypeVar("V_co", covariant=True, default=Any)
V_contra = TypeVar("V_contra", contravariant=True, default=Any)
"""Records of the second one of two streams; values of entries."""

ACC = TypeVar("ACC", default=Any)
"""The accumulator of an aggregate function."""

IN1_contra = TypeVar("IN1_contra", contravariant=True, default=Any)
IN2_contra = TypeVar("IN2_contra", contravariant=True, default=Any)
"""The records of two connected streams."""

OUT = TypeVar("OUT", default=Any)
OUT_co = TypeVar("OUT_co", covariant=True, default=Any)

W = TypeVar("W", default=Any)
W_co = TypeVar("W_co", covariant=True, default=Any)
W_contra = TypeVar("W_contra", contravariant=True, default=Any)
"""Windows."""
