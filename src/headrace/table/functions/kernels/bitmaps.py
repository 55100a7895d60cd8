"""Functions of bitmaps."""

from typing import Final

import numpy as np

from headrace.common.bitmaps import packed, unpacked, unsigned
from headrace.table.functions.kernels.kernel import by_row

bitmap_build: Final = by_row(lambda values: packed([value for value in values if value is not None]))
bitmap_cardinality: Final = by_row(lambda data: len(unpacked(data)))
bitmap_to_array: Final = by_row(lambda data: unpacked(data).tolist())
bitmap_to_string: Final = by_row(lambda data: "{" + ",".join(map(str, unsigned(data).tolist())) + "}")
bitmap_to_bytes: Final = by_row(lambda data: data)
bitmap_from_bytes: Final = by_row(lambda data: packed(unpacked(data)))
bitmap_and: Final = by_row(lambda left, right: packed(np.intersect1d(unsigned(left), unsigned(right))))
bitmap_or: Final = by_row(lambda left, right: packed(np.union1d(unsigned(left), unsigned(right))))
bitmap_xor: Final = by_row(lambda left, right: packed(np.setxor1d(unsigned(left), unsigned(right))))
bitmap_andnot: Final = by_row(lambda left, right: packed(np.setdiff1d(unsigned(left), unsigned(right))))
