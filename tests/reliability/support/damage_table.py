"""What happens when a file of a job is damaged, by its kind and by the damage; ``docs/damage.md`` shows the same."""

from __future__ import annotations

from typing import Final

EXACT: Final = "exact"
"""It does not matter: the job goes on, and its output is exact."""

LEFT: Final = "left"
"""It belongs to readers by then: the job goes on and does not look at it; all else is exact."""

NOT_THERE: Final = "n/a"
"""There is no such thing."""

_X: Final = EXACT
_L: Final = LEFT
_N: Final = NOT_THERE
_C: Final = "CheckpointError"
_S: Final = "StateCorruptedError"
_R: Final = "CommitRefusedError"
_XC: Final = f"{EXACT} or {_C}"
_XS: Final = f"{EXACT} or {_S}"

DAMAGES: Final = [
    "a bit flipped",
    "cut short",
    "extended",
    "two swapped",
    "deleted",
    "an old copy in its place",
    "an old copy beside it",
    "a folder in its place",
    "a folder with such a name beside it",
    "strangers beside it",
]

TABLE: Final = {
    "manifest": [_C, _C, _C, _C, _C, _C, _X, _C, _C, _X],
    "older manifest": [_X, _X, _X, _N, _X, _X, _X, _X, _X, _X],
    "note": [_X, _X, _X, _N, _X, _X, _N, _C, _X, _X],
    "generation": [_XC, _XC, _X, _X, _X, _X, _N, _C, _X, _X],
    "state file": [_S, _S, _S, _S, _S, _S, _X, _S, _X, _X],
    "older state file": [_XS, _XS, _X, _S, _S, _S, _X, _S, _X, _X],
    "compacted state file": [_XS, _XS, _X, _S, _S, _S, _X, _S, _X, _X],
    "shared state file": [_XS, _XS, _X, _S, _S, _S, _X, _S, _X, _X],
    "source log": [_S, _S, _S, _S, _S, _S, _X, _S, _X, _X],
    "hidden part": [_R, _R, _R, _R, _R, _R, _X, _R, _X, _X],
    "waiting part": [_R, _R, _R, _R, _R, _R, _X, _R, _X, _X],
    "part just shown": [_L, _R, _R, _R, _R, _R, _N, _R, _X, _X],
    "visible part": [_L, _L, _L, _L, _L, _L, _N, _L, _X, _X],
}
"""By kind, the outcome of each damage: one of the above, or an error that names the file."""

_P: Final = "SavepointError"
_XP: Final = f"{EXACT} or {_P}"
_PS: Final = f"{_P} or {_S}"

SAVEPOINTS: Final = {
    "savepoint": [_P, _P, _XP, _P, _P, _P, _X, _P, _X, _X],
    "table of a savepoint": [_P, _P, _P, _P, _P, _P, _X, _P, _X, _X],
    "source log of a savepoint": [_P, _P, _P, _P, _P, _P, _X, _P, _X, _X],
    "native savepoint": [_P, _P, _XP, _P, _P, _P, _X, _P, _X, _X],
    "source log of a native savepoint": [_P, _P, _P, _P, _P, _P, _X, _P, _X, _X],
    "state file of a native savepoint": [_XS, _PS, _XS, _PS, _P, _PS, _X, _P, _X, _X],
    "pin": [_C, _C, _XC, _C, _XP, _C, _X, _C, _C, _X],
}
"""By kind, the outcome of each damage to a savepoint, for a job that starts from it."""

STAGED: Final = [_R, _R, _R, _R, _R, _R, _X, _R, _X, _X]
"""That of messages that wait to be published to Kafka."""
