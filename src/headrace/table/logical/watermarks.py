"""The options ``scan.watermark.*`` of tables, which say how their watermarks advance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.common.config_options import ConfigOption, choice, duration, integer, positive_duration
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.other_names import alike
from headrace.time.watermark_strategy import WatermarkAlignment

PREFIX: Final = "scan.watermark."
"""The beginning of these options."""


@dataclass(frozen=True)
class WatermarkOptions:
    """The options of a table for its watermarks.

    Attributes:
        idle_timeout: after how many milliseconds a silent split holds no other one back; None where the session says.
        group: the sources whose splits are ahead of each other by ``max_drift`` milliseconds at most; empty for none.
        max_drift: as above.
    """

    idle_timeout: int | None = None
    group: str = ""
    max_drift: int = 0

    @property
    def alignment(self) -> WatermarkAlignment | None:
        """The limit on the drift of the table's splits; None where there is none."""
        return WatermarkAlignment(self.group, self.max_drift) if self.group else None


PLAIN_WATERMARKS: Final = WatermarkOptions()
"""The options of a table that sets none."""


_IDLE_TIMEOUT: Final = ConfigOption(
    f"{PREFIX}idle-timeout",
    positive_duration,
    None,
    "The time after which a silent split holds no other one back.",
)
_GROUP: Final = ConfigOption(f"{PREFIX}alignment.group", str, None, "The sources whose watermarks stay together.")
_MAX_DRIFT: Final = ConfigOption(
    f"{PREFIX}alignment.max-drift",
    duration,
    None,
    "The longest time that a split is ahead of the slowest one.",
)
_UPDATE_INTERVAL: Final = ConfigOption(
    f"{PREFIX}alignment.update-interval", duration, None, "Without effect: each epoch compares watermarks."
)
_STRATEGY: Final = ConfigOption(
    f"{PREFIX}emit.strategy",
    choice("on-periodic", "on-event"),
    None,
    "Without effect: watermarks follow each row.",
)
_GAP: Final = ConfigOption(f"{PREFIX}emit.on-event.gap", integer(1, 1 << 31), 1, "The rows between two watermarks: 1.")

_OPTIONS: Final = {each.key: each for each in (_IDLE_TIMEOUT, _GROUP, _MAX_DRIFT, _UPDATE_INTERVAL, _STRATEGY, _GAP)}


def watermark_options(table: str, options: Mapping[str, str], *, has_watermark: bool) -> WatermarkOptions:
    """The options of a table for its watermarks.

    Args:
        table: the name of the table.
        options: its options.
        has_watermark: whether it declares one.

    Raises:
        ConfigurationError: when one is unknown or wrong, or the table has no watermark.
    """
    given = {key: value for key, value in options.items() if key.startswith(PREFIX)}
    for key in given:
        if key not in _OPTIONS:
            raise ConfigurationError(f"table {table}: there is no option {key!r}{alike(key, _OPTIONS)}")
        if not has_watermark:
            raise ConfigurationError(f"table {table} has the option {key!r}, but no watermark: add WATERMARK FOR to it")
    read = Configuration.from_dict(given)
    for option in _OPTIONS.values():
        read.get(option)  # so that a wrong value of one that has no effect is told as well
    group, drift = read.get(_GROUP), read.get(_MAX_DRIFT)
    if (drift is None) == bool(group):
        missing = _MAX_DRIFT if drift is None else _GROUP
        raise ConfigurationError(f"table {table}: watermarks are aligned with a group and a drift: set {missing.key!r}")
    if read.get(_GAP) != 1:
        raise ConfigurationError(f"table {table}: watermarks follow each row, not some of them: leave {_GAP.key!r} out")
    return WatermarkOptions(read.get(_IDLE_TIMEOUT), group or "", drift or 0)
