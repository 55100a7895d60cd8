"""What headrace itself tells of operators, by name; functions cannot give these names to metrics of theirs."""

from typing import Final

RECORDS_IN: Final = "numRecordsIn"
"""Records that went into an operator; of a source, that it has read."""

RECORDS_IN_ERRORS: Final = "numRecordsInErrors"
"""Messages that no record could be made of."""

SEND_ERRORS: Final = "numRecordsSendErrors"
"""Records that no message could be made of."""

LATE_DROPPED: Final = "numLateRecordsDropped"
"""Records that came too late and went to no side output."""

ROWS_DROPPED: Final = "numRowsOfChangedWindowsDropped"
"""What windows that are declared otherwise now held, and was given up."""

ROWS_MOVED: Final = "numRowsOfChangedWindowsMoved"
"""The same, where it has gone to the windows that there are now."""

FILES_MISSING: Final = "numFilesMissing"
"""Files that were gone when they were to be read."""

FILES_CORRUPT: Final = "numFilesCorrupt"
"""Files that could not be read to their end."""

LOOKUP_CACHE_HITS: Final = "numLookupCacheHits"
"""Records whose key was found in the cache."""

LOOKUP_MISSES: Final = "numLookupMisses"
"""Records whose key nothing was found for."""

ASYNC_TIMEOUTS: Final = "numAsyncTimeouts"
"""Requests that had no result in time."""

ASYNC_RETRIES: Final = "numAsyncRetries"
"""Attempts that were not the first."""

INPUT_WATERMARK: Final = "currentInputWatermark"
"""What the slowest subtask has reached, in milliseconds."""

OUTPUT_WATERMARK: Final = "currentOutputWatermark"
"""What it has passed on."""

WATERMARK_LAG: Final = "watermarkLag"
"""How far that is behind the job's clock, in milliseconds."""

ALIGNMENT_DRIFT: Final = "watermarkAlignmentDrift"
"""How far the fastest split is ahead of the slowest one of its group, in milliseconds."""

OWN_NAMES: Final = frozenset(
    {
        RECORDS_IN,
        RECORDS_IN_ERRORS,
        SEND_ERRORS,
        LATE_DROPPED,
        ROWS_DROPPED,
        ROWS_MOVED,
        FILES_MISSING,
        FILES_CORRUPT,
        LOOKUP_CACHE_HITS,
        LOOKUP_MISSES,
        ASYNC_TIMEOUTS,
        ASYNC_RETRIES,
        INPUT_WATERMARK,
        OUTPUT_WATERMARK,
        WATERMARK_LAG,
        ALIGNMENT_DRIFT,
    }
)
"""All of them."""
