"""Topics and consumer groups of an embedded log, as operators ask for them."""

import time
from collections.abc import Mapping

from headrace.connectors.topic_state import GroupState, TopicMonitor, TopicsPlace, TopicsState, TopicState
from headrace.log.log import Log


class LogTopicMonitor(TopicMonitor):
    """Looks at a log.

    Args:
        log: the log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log

    def look(self) -> TopicsState:
        groups = {
            name: GroupState(len(group.members), dict(group.offsets)) for name, group in self._log.groups().items()
        }
        return TopicsState(time.monotonic(), {name: self._topic(name) for name in self._log.topics()}, groups)

    def _topic(self, name: str) -> TopicState:
        with self._log.journal.lock:
            described = self._log.journal.state().topic(name)
            return TopicState(
                tuple(partition.start_offset for partition in described.partitions),
                tuple(partition.end_offset for partition in described.partitions),
                sum(partition.bytes for partition in described.partitions),
                {key: str(value) for key, value in described.config.settings().items()},
            )


def log_place(location: str) -> TopicsPlace:
    """The place of the topics of a log."""

    def monitor(storage_options: Mapping[str, str]) -> TopicMonitor:
        return LogTopicMonitor(Log.open(location, options=storage_options))

    return TopicsPlace("embedded log", location, monitor)
