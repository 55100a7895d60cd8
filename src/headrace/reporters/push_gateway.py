"""Metrics for Prometheus's push gateway, where nothing can scrape the job itself."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.common.config_options import ConfigOption, boolean, text_mapping
from headrace.common.errors import ConfigurationError
from headrace.metrics.samples import MetricSample
from headrace.reporters.prometheus import FILTERS_LABELS, JobCollector, check_client
from headrace.reporters.reporter import MetricReporter, ReporterContext

HOST_URL: Final = ConfigOption("hostUrl", str, "", "The URL of the push gateway: `http://pushgateway:9091`.")
JOB_NAME: Final = ConfigOption("jobName", str, "", "The label `job` of the group that metrics are pushed to.")
RANDOM_SUFFIX: Final = ConfigOption(
    "randomJobNameSuffix", boolean, True, "Whether random letters follow that name, so that no two runs share a group."
)
DELETES: Final = ConfigOption("deleteOnShutdown", boolean, True, "Whether the group is deleted when the job has ended.")
GROUPING: Final[ConfigOption[Mapping[str, str]]] = ConfigOption(
    "groupingKey", text_mapping("k1=v1;k2=v2"), {}, "More labels of the group: `k1=v1;k2=v2`."
)

_TIMEOUT_SECONDS: Final = 10.0


class PushGatewayReporter(MetricReporter):
    """Puts the metrics of a job into a group of a push gateway, which it replaces each time."""

    required_options = (HOST_URL,)
    optional_options = (JOB_NAME, RANDOM_SUFFIX, DELETES, GROUPING, FILTERS_LABELS)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        check_client()

    def open(self, context: ReporterContext) -> None:
        from prometheus_client import CollectorRegistry

        options = context.options
        self._url, self._deletes = options.get(HOST_URL), options.get(DELETES)
        self._job = options.get(JOB_NAME) + (secrets.token_hex(16) if options.get(RANDOM_SUFFIX) else "")
        if not self._job:
            raise ConfigurationError(f"{JOB_NAME.key} is empty and {RANDOM_SUFFIX.key} false, so the group has no name")
        grouping = options.get(GROUPING)
        self._grouping = dict(grouping)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(JobCollector(context, filters_labels=options.get(FILTERS_LABELS)))

    def report(self, samples: Sequence[MetricSample]) -> None:
        from prometheus_client import push_to_gateway

        push_to_gateway(self._url, self._job, self._registry, self._grouping, _TIMEOUT_SECONDS)

    def close(self) -> None:
        from prometheus_client import delete_from_gateway

        if self._deletes:
            delete_from_gateway(self._url, self._job, self._grouping, _TIMEOUT_SECONDS)
