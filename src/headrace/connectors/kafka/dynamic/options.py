"""Settings of a source of several clusters, by Flink's names."""

from __future__ import annotations

from typing import Final

INTERVAL: Final = "stream-metadata-discovery-interval-ms"
THRESHOLD: Final = "stream-metadata-discovery-failure-threshold"
RETENTION: Final = "stream-metadata-removed-cluster-retention-ms"
MODE: Final = "stream-enumerator-mode"
OPTIONS: Final = (INTERVAL, THRESHOLD, RETENTION, MODE)
