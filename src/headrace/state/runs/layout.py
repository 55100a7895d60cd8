"""Names of the columns of runs, and of the entries of ``meta``, with what they hold."""

from __future__ import annotations

from typing import Final

KIND: Final = "kind"
"""The entry of ``meta`` that says what a run holds, and so how it is merged."""

SUBTASK_LIST: Final = "elements"
"""The kind of the lists of subtasks: a row is an element, and merging puts the rows one after the other."""

TIMERS: Final = "timers"
"""The kind of timers: rows in the order of time."""

TYPES: Final = "types"
"""The entry of ``meta`` that says under which types the values of a run were stored: JSON."""

SORT: Final = "sort"
"""The entry of ``meta`` that lists the columns by which a run is sorted."""

ELEMENT_COUNT: Final = "elements"
"""The entry of ``meta`` that says how many elements the lists of a run have, if its rows have lists of elements."""

REACHED: Final = "reached"
"""The entry of ``meta`` that says where the watermark was when a run was written: what was over is not needed."""

SHOWN: Final = "shown"
"""The entry of ``meta`` that says up to which watermark rows that are over have been shown: they must not come back."""

HASH: Final = "hash"
"""The column (uint64) of the keys' hashes; rows of a store without it belong to no key."""

KEY: Final = "key"
"""The keys in canonical form."""

KEY_ORDER: Final = [HASH, KEY]
"""What runs of keyed state are sorted by; there is one row per key."""

VALUE: Final = "value"
"""Values, elements, or values of entries; for a value state null is a tombstone."""

EXPIRY: Final = "expiry"
"""When each of them expires, in milliseconds of the time that ``TTL`` or ``FORMER_TTL`` says.

Null, no such column, or none of these entries: never.
"""

TTL: Final = "ttl"
"""The entry of ``meta`` that is there while a state has a time to live: true in processing time, or ``event``."""

FORMER_TTL: Final = "former_ttl"
"""The same where the state has none at present, and keeps the expiries for when it has one again."""

HALF_EXPIRED: Final = "half_expired"
"""The entry of ``meta`` that says when half of the elements of a run will have expired, if that is ever."""

CLEAR: Final = "clear"
"""Lists and maps: whether everything that older runs hold for the key is void."""

ENTRY_KEY: Final = "entry_key"
"""The entries' keys in canonical form, by which entries are equal."""

ENTRY_HASH: Final = "entry_hash"
"""The hashes of these, by which the entries of a key are sorted; where the keys are integers, these are sorted."""

PLACE: Final = "place"
"""Where each of the actions on the entries of a key was in the order in which they happened: 0 for the first one."""

ENTRY: Final = "entry"
"""The entries' keys as the user knows them, where the canonical form would not give back the same object."""

ACTION: Final = "action"
"""What happens to an entry of a map: one of the three below."""

REMOVED: Final = 0
PUT: Final = 1
"""The value is set; an entry that exists keeps its place in the order of insertion."""
REINSERTED: Final = 2
"""The entry was removed, then put again: it goes to the end."""
