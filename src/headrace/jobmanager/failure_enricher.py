"""Failure enrichers: plugins that add labels to the failures of a job, who is to be called, say.

A distribution adds one as an entry point of the group ``headrace.failure_enrichers``; ``jobmanager.failure-enrichers``
names those that a job has.
"""

from __future__ import annotations

import re
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.common import options
from headrace.common.errors import ConfigurationError
from headrace.common.logs import get_logger, with_fields
from headrace.common.plugins import Plugin, PluginGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.errors import FailureOrigin

logger = get_logger(__name__)

ENRICHER_SECONDS: Final = 5.0
"""So long all enrichers have together; who is not done then is left behind, without labels."""


@dataclass(frozen=True, slots=True)
class FailureContext:
    """What is known of a failure beside the error itself.

    Attributes:
        job_id: the job's id.
        job_name: the job's name.
        epoch: the epoch that was at work, or about to be.
        is_final: whether the job ends with it.
        origin: the operator that failed; None when it was none, or is not known.
    """

    job_id: str
    job_name: str
    epoch: int
    is_final: bool
    origin: FailureOrigin | None


class FailureEnricher(Plugin):
    """Adds labels to failures.

    Class attributes:
        output_keys: the labels that it may give; others are left out.
    """

    noun = "failure enricher"
    output_keys: ClassVar[frozenset[str]]

    @abstractmethod
    def process_failure(self, error: BaseException, context: FailureContext) -> Mapping[str, str]:
        """The labels of a failure; called in a thread of its own, which is not waited for very long.

        Args:
            error: what was raised.
            context: what else is known.
        """


FAILURE_ENRICHERS: Final = PluginGroup(
    "headrace.failure_enrichers",
    FailureEnricher,  # type: ignore[type-abstract] # what plugins extend, never made itself
    {},
)
"""All that are there."""


def load_enrichers(configured: str | None) -> list[FailureEnricher]:
    """The enrichers that a configuration names, with commas or semicolons between them.

    Raises:
        ConfigurationError: when there is none of a name, or two give the same label.
        InvalidProgramError: when one cannot be imported.
    """
    names = [name.strip() for name in re.split("[,;]", configured or "")]
    enrichers = [FAILURE_ENRICHERS.load(name) for name in dict.fromkeys(names) if name]
    counted = Counter(key for enricher in enrichers for key in enricher.output_keys)
    twice = sorted(key for key, count in counted.items() if count > 1)
    if twice:
        owners = [str(enricher) for enricher in enrichers if twice[0] in enricher.output_keys]
        raise ConfigurationError(
            f"{options.FAILURE_ENRICHERS.key}: {' and '.join(owners)} both give the label {twice[0]!r}: leave one out"
        )
    return enrichers


def labels_of(enrichers: Sequence[FailureEnricher], error: BaseException, context: FailureContext) -> dict[str, str]:
    """What enrichers say of a failure; what goes wrong with one is logged, and the others' labels stay."""
    asked = [(enricher, _Question(enricher, error, context)) for enricher in enrichers]
    until = time.monotonic() + ENRICHER_SECONDS
    labels: dict[str, str] = {}
    for enricher, question in asked:
        question.thread.join(max(0.0, until - time.monotonic()))
        if question.thread.is_alive():
            logger.warning("%s has not labelled a failure within %g s and is left behind", enricher, ENRICHER_SECONDS)
        else:
            labels |= question.labels
    return labels


class _Question:
    """One enricher, asked about one failure in a thread that may be left behind."""

    def __init__(self, enricher: FailureEnricher, error: BaseException, context: FailureContext) -> None:
        self.labels: dict[str, str] = {}
        self._enricher = enricher
        self._error = error
        self._context = context
        self.thread = threading.Thread(target=with_fields(self._ask), name=f"headrace-{enricher}", daemon=True)
        self.thread.start()

    def _ask(self) -> None:
        enricher = self._enricher
        try:
            given = dict(enricher.process_failure(self._error, self._context))
            self.labels = {str(key): str(text) for key, text in given.items() if key in enricher.output_keys}
        except BaseException:
            logger.warning("%s failed, the failure keeps the labels of others", enricher, exc_info=True)
            return
        if unknown := sorted(set(given) - set(enricher.output_keys), key=str):
            logger.warning("%s gave labels that are not among its output_keys: %s", enricher, unknown)
