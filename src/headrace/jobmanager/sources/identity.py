"""Whether a source of the program is the one whose position a manifest holds under its uid."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.manifest import SourceIdentity
from headrace.common.logs import get_logger
from headrace.connectors.source import Boundedness
from headrace.graph.specs import SourceSpec
from headrace.storage.locations import usual_spelling

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
    locations = sorted(set(map(usual_spelling, source.locations)))
    rest = locations[_MOST_LOCATIONS:]
    if rest:
        checksum = zlib.crc32("\n".join(rest).encode())
        locations[_MOST_LOCATIONS:] = [f"{len(rest)} more ({checksum:08x})"]
    return SourceIdentity(source.position_kind, tuple(locations))


def misplaced_positions(manifest: Manifest, plan: JobPlan) -> dict[str, str]:
    """What the program must not go on from, though it has a source with the same uid: by uid, in words.

    That is the position of a source of another kind. And under a derived uid that of one which has another uid in the
    program, or where the program's source had another uid: a source that is put before others, or taken from there,
    shifts the uids of those behind it.
    """
    own_of = {operator.uid: identity_of(source) for operator, source in _sources(plan)}
    changed = {o.uid: o for o, _ in _sources(plan) if _known(manifest, o.uid) != own_of[o.uid]}
    derived = {uid for uid, operator in changed.items() if not operator.has_explicit_uid}
    are_now = {own_of[uid] for uid in changed}
    were = {_known(manifest, uid) for uid in manifest.sources if uid in derived or uid not in own_of}
    found = {}
    for uid, operator in changed.items():
        known, own = _known(manifest, uid), own_of[uid]
        if known is None:
            continue
        is_shifted = (known.locations and known in are_now) or (own.locations and own in were)
        if known.kind != own.kind or (is_shifted and uid in derived):
            found[uid] = (
                f"the position of {known} (its uid {uid} is now that of {own}, {operator.node.name!r} at "
                f"{operator.node.call_site}{_advice_on_kinds(known, own)})"
            )
    return found


def warn_of_moved_sources(manifest: Manifest, plan: JobPlan) -> None:
    """Say which sources read somewhere else than before; they go on from their positions all the same."""
    for operator, source in _sources(plan):
        known, own = _known(manifest, operator.uid), identity_of(source)
        if known is None or known.kind != own.kind or not known.locations or not own.locations:
            continue
        if known != own:
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


def _known(manifest: Manifest, uid: str) -> SourceIdentity | None:
    """Which source the manifest has a position of under a uid, if it says so."""
    snapshot = manifest.sources.get(uid)
    if snapshot is None or not snapshot.is_begun or snapshot.identity is None:
        return None
    known = snapshot.identity
    listed, rest = known.locations[:_MOST_LOCATIONS], known.locations[_MOST_LOCATIONS:]
    # Earlier versions wrote what the program had.
    return SourceIdentity(known.kind, (*sorted(set(map(usual_spelling, listed))), *rest))


def _advice_on_kinds(known: SourceIdentity, own: SourceIdentity) -> str:
    if known.kind == own.kind:
        return ""
    return f"; if that is the same class under another name, have its position_kind be {known.kind!r}"
