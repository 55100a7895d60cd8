"""Failure enrichers: plugins that add labels to the failures of a job, who is to be called, say.

A distribution adds one as an entry point of the group ``headrace.failure_enrichers``; ``jobmanager.failure-enrichers``
names those that a job has.
"""

import re
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from headrace.common import options
from headrace.common.errors import ConfigurationError, FailureOrigin
from headrace.common.logs import get_logger, with_fields
from headrace.common.plugins import Plugin, PluginGroup

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
    given: dict[FailureEnricher, dict[str, str]] = {}
    asked = []
    for enricher in enrichers:
        ask = with_fields(partial(_ask, enricher, error, context, given))
        thread = threading.Thread(target=ask, name=f"headrace-{enricher}", daemon=True)
        thread.start()
        asked.append((enricher, thread))
    until = time.monotonic() + ENRICHER_SECONDS
    labels: dict[str, str] = {}
    for enricher, thread in asked:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            logger.warning("%s has not labelled a failure within %g s and is left behind", enricher, ENRICHER_SECONDS)
        else:
            labels |= given.get(enricher, {})
    return labels


def _ask(
    enricher: FailureEnricher,
    error: BaseException,
    context: FailureContext,
    given: dict[FailureEnricher, dict[str, str]],
) -> None:
    """Ask one enricher, in a thread that may be left behind."""
    try:
        found = dict(enricher.process_failure(error, context))
        given[enricher] = {str(key): str(text) for key, text in found.items() if key in enricher.output_keys}
    except BaseException:
        logger.warning("%s failed, the failure keeps the labels of others", enricher, exc_info=True)
        return
    if unknown := sorted(set(found) - set(enricher.output_keys), key=str):
        logger.warning("%s gave labels that are not among its output_keys: %s", enricher, unknown)
