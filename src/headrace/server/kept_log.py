"""The end of the log of a process, which its server shows."""

import logging
from collections import deque
from typing import Final

_MOST_RECORDS: Final = 5_000


class KeptLog(logging.Handler):
    """Keeps the last records of a process; text as :mod:`logging` formats it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._lines: deque[str] = deque(maxlen=_MOST_RECORDS)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    def text(self) -> str:
        """What is kept, a line each but for traces."""
        return "".join(f"{line}\n" for line in list(self._lines))
