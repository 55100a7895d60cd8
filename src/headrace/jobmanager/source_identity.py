"""Whether a source of the program is the one whose position a manifest holds under its uid."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.manifest import SourceIdentity
from headrace.common.logs import get_logger
from headrace.connectors.source import Boundedness
from headrace.graph.specs import SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.checkpoint.manifest import Manifest
    from headrace.connectors.source import Source
    from headrace.plan.job_plan import JobPlan, PlannedOperator

_MOST_LOCATIONS: Final = 8
"""How many a manifest lists, which is written in every epoch; of more the rest becomes a number and a checksum."""

logger = get_logger(__name__)


def identity_of(source: Source) -> SourceIdentity:
    """What a manifest says of a source, to know it again."""
    locations = sorted(set(source.locations))
    rest = locations[_MOST_LOCATIONS:]
    if rest:
        checksum = zlib.crc32("\n".join(rest).encode())
        locations[_MOST_LOCATIONS:] = [f"{len(rest)} more ({checksum:08x})"]
    return SourceIdentity(source.position_kind, tuple(locations))


def misplaced_positions(manifest: Manifest, plan: JobPlan) -> dict[str, str]:
    """What the program must not go on from, though it has a source with the same uid: by uid, in words.

    That is the position of a source of another kind. And the position of one that is in the program under another uid,
    where the uid is derived: a source that is put before another one gets the uid that this one had.
    """
    found = {}
    identities = {operator.uid: identity_of(source) for operator, source in _sources(plan)}
    for operator, _ in _sources(plan):
        known, own = _known(manifest, operator), identities[operator.uid]
        if known is None or known == own:
            continue
        is_elsewhere = bool(known.locations) and known in identities.values()
        if known.kind != own.kind or (is_elsewhere and not operator.has_explicit_uid):
            found[operator.uid] = (
                f"the position of {known} (its uid {operator.uid} is now that of {own}, {operator.node.name!r} at "
                f"{operator.node.call_site})"
            )
    return found


def warn_of_moved_sources(manifest: Manifest, plan: JobPlan) -> None:
    """Say which sources read somewhere else than before; they go on from their positions all the same."""
    for operator, source in _sources(plan):
        known, own = _known(manifest, operator), identity_of(source)
        if known is not None and known.kind == own.kind and known.locations != own.locations:
            is_bounded = source.boundedness is Boundedness.BOUNDED
            logger.warning(
                "source %s is %s now, and goes on from the position of %s: what that had found is still read%s",
                operator.label,
                own,
                known,
                "; as it ends, it looks for nothing new" if is_bounded else "",
            )


def _sources(plan: JobPlan) -> Iterator[tuple[PlannedOperator, Source]]:
    for operator in plan.operators():
        if isinstance(operator.node.spec, SourceSpec):
            yield operator, operator.node.spec.source


def _known(manifest: Manifest, operator: PlannedOperator) -> SourceIdentity | None:
    """Which source the manifest has a position of under the uid of one, if it says so."""
    snapshot = manifest.sources.get(operator.uid)
    return None if snapshot is None or not snapshot.is_begun else snapshot.identity
