"""Metrics for StatsD, as Flink's reporter sends them: gauges in datagrams."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headrace.common.config_options import ConfigOption, integer
from headrace.metrics.registry import Summary
from headrace.metrics.samples import MeterReading, MetricSample
from headrace.reporters.reporter import MetricReporter, ReporterContext

HOST: Final = ConfigOption("host", str, "", "The host of the StatsD server.")
PORT: Final = ConfigOption("port", integer(1, 65535), 8125, "Its port.")

_DATAGRAM_BYTES: Final = 1432
"""The bytes that fit one frame of Ethernet, behind the headers of IPv6 and UDP."""


class StatsDReporter(MetricReporter):
    """Sends the metrics of a job to a StatsD server, as many in a datagram as fit one frame."""

    required_options = (HOST,)
    optional_options = (PORT,)

    def open(self, context: ReporterContext) -> None:
        self._context = context
        host, port = context.options.get(HOST), context.options.get(PORT)
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        self._address = address
        self._socket = socket.socket(family, kind, protocol)

    def report(self, samples: Sequence[MetricSample]) -> None:
        for datagram in _datagrams(line for sample in samples for line in self._lines(sample)):
            self._socket.sendto(datagram, self._address)

    def close(self) -> None:
        self._socket.close()

    def _lines(self, sample: MetricSample) -> Iterator[str]:
        name = self._context.identifier(sample, _written)
        match sample.value:
            case str():
                return  # StatsD has numbers alone
            case MeterReading(count, rate):
                numbers: dict[str, float] = {f"{name}.rate": rate, f"{name}.count": count}
            case Summary():
                numbers = sample.value.shown(name)
            case number:
                numbers = {name: number}
        for each, value in numbers.items():
            if value < 0:
                yield f"{each}:0|g"  # a sign would make it a change of what there is
            yield f"{each}:{value}|g"


def _written(text: str) -> str:
    """A part of a name without what separates it from the value."""
    return text.replace(":", "-").replace("\n", " ")


def _datagrams(lines: Iterable[str]) -> Iterator[bytes]:
    waiting = b""
    for line in lines:
        encoded = line.encode()
        if waiting and len(waiting) + 1 + len(encoded) > _DATAGRAM_BYTES:
            yield waiting
            waiting = b""
        waiting = waiting + b"\n" + encoded if waiting else encoded
    if waiting:
        yield waiting
