"""The state backend ``rocksdb``: what has piled up of keyed state lies in sorted tables of RocksDB.

An epoch writes its changes as runs of columns, as ``hashmap`` does: the same changes give the same bytes, which
RocksDB's writer does not promise. Work beside the epochs merges them into tables, range of hashes by range of hashes,
and keys are looked up there one by one, behind filters and a cache of blocks. So memory is bounded whatever the state's
size.
"""
