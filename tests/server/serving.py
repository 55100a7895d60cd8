"""Jobs that are served at an address of their own, and a client of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import MapFunction, StreamExecutionEnvironment
from headrace.server.client import RestClient
from headrace.server.server import RestServer
from tests.waiting import wait_for

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.server.settings import RestSettings

TIMES = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)


class Served:
    """A server, what asks it, and jobs that it serves.

    Args:
        settings: those of the server.
    """

    def __init__(self, settings: RestSettings) -> None:
        self.server = RestServer(settings)
        self.server.start()
        self.rest = RestClient(self.server.address, settings.token, seconds=60.0)
        self.port = int(self.server.address.rpartition(":")[2])

    def start(
        self,
        count: int | None = None,
        rate: int = 5_000,
        fails_at: int = -1,
        saying: str = "one too many",
        **settings: str,
    ) -> tuple[JobClient, str]:
        """Start a job and wait for its first epoch; gives its client and its id."""
        options = {"headrace.runtime": "local", "parallelism.default": "2"} | settings
        configuration = Configuration.from_dict(options)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        source = DataGeneratorSource(lambda number: number, count, RateLimiterStrategy.per_second(rate), Types.LONG())
        numbers = env.from_source(source, TIMES, "numbers").uid("numbers")
        sums = numbers.map(_AddOne(fails_at, saying), Types.LONG()).name("one more").uid("more").key_by(_tenth)
        sums.reduce(lambda one, other: one + other).name("sum").uid("sum").filter(_never).name("none").print()
        client = env.execute_async("served job")
        self.server.add(client, configuration)
        wait_for(lambda: client.snapshot().latest or client.snapshot().end)
        return client, str(client.get_job_id())

    def serve(self, client: JobClient, settings: dict[str, str]) -> None:
        """Serve a job that somebody else has started."""
        self.server.add(client, Configuration.from_dict(settings))


class _AddOne(MapFunction):
    def __init__(self, fails_at: int, saying: str) -> None:
        self._fails_at = fails_at
        self._saying = saying

    def map(self, value: int) -> int:
        if value == self._fails_at:
            raise ValueError(f"{value} is {self._saying}")
        return value + 1


def _tenth(number: int) -> int:
    return number % 10


def _never(_: int) -> bool:
    return False
