"""How the C library keeps memory that numpy has freed, in the processes that run tasks."""

import ctypes
import os
import sys
from functools import cache
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""The numbers of parameters in ``malloc.h`` of glibc."""

_KEPT_BYTES: Final = 128 << 20
_LARGEST_KEPT: Final = 32 << 20
"""The most that every glibc accepts."""

_VARIABLES: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


@cache
def keep_freed_memory() -> None:
    """Have freed memory kept for the next batch, which needs arrays of the same sizes.

    glibc gives it back to the system at once, and every page is mapped and zeroed again when it is next written to,
    which is up to a seventh of the CPU time of a job. Nothing happens without glibc, or if the environment decides.
    """
    is_set = any(name in os.environ for name in _VARIABLES) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if sys.platform != "linux" or is_set:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
