"""``DeliveryGuarantee``: what a sink promises when the job fails and goes on."""

from __future__ import annotations

import enum


class DeliveryGuarantee(enum.Enum):
    """How often a record arrives that the job processed once."""

    EXACTLY_ONCE = 0
    """Once, failures or not."""

    AT_LEAST_ONCE = 1
    """Once, or again after a failure."""

    NONE = 2
    """Once, again, or not at all after a failure."""
