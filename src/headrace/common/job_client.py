"""``JobClient``, under PyFlink's module path.

It is part of ``headrace.client``, which builds on this package: it is looked up on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.public_module import public_module

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient

__all__ = ["JobClient"]

public_module(__name__, {"JobClient": "headrace.client.job_client"})
