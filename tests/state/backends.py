"""The state backends that tests of all of them are run on."""

from __future__ import annotations

from headrace.state.backend import DEFAULT_BACKEND, ROCKSDB_BACKEND

BACKENDS = [DEFAULT_BACKEND, ROCKSDB_BACKEND, "dictionary"]
