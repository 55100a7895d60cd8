"""How often a record arrives."""

from __future__ import annotations

from enum import Enum


class DeliveryGuarantee(Enum):
    """How often a record arrives that the job has processed once, failures or not.

    Examples:
        >>> from headrace.datastream.connectors import DeliveryGuarantee
        >>> [guarantee.name for guarantee in DeliveryGuarantee]
        ['EXACTLY_ONCE', 'AT_LEAST_ONCE', 'NONE']
    """

    EXACTLY_ONCE = 0
    """Once, failures or not."""

    AT_LEAST_ONCE = 1
    """Once, or again after a failure."""

    NONE = 2
    """Once, again, or not at all after a failure."""
