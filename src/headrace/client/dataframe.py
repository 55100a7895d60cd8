"""The results of a bounded job as a Spark DataFrame."""

import tempfile
from typing import Any

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidTypeError, UnsupportedOperationError
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.file_system.sink import FileSink
from headrace.connectors.sink import Sink
from headrace.formats.parquet import ParquetBulkWriters


class DataFrameTarget:
    """Files that a job writes and Spark reads.

    Args:
        type_: the type of the records; it must have columns.
        configuration: the job's.

    Raises:
        InvalidTypeError: when the records have no columns.
        UnsupportedOperationError: on the local runtime.
    """

    def __init__(self, type_: TypeInformation, configuration: Configuration) -> None:
        if type_.arrow_type is None:
            raise InvalidTypeError(
                f"records of type {type_} have no columns: declare an output type, or annotate the function"
            )
        if configuration.get(options.RUNTIME) == "local":
            raise UnsupportedOperationError(
                "to_dataframe() needs Spark; on the local runtime use execute_and_collect()"
            )
        self._configuration = configuration
        self._folder = tempfile.mkdtemp(prefix="headrace-dataframe-")
        self.sink: Sink = FileSink.for_bulk_format(self._folder, ParquetBulkWriters.for_row_type(type_)).build()

    def dataframe(self) -> Any:
        """What the job wrote; the files live as long as the machine's temporary folder."""
        from headrace.runtime.spark.session import acquire_session

        master = self._configuration.get(options.SPARK_MASTER)
        session = acquire_session(self._configuration.spark_options(), master).session
        return session.read.option("recursiveFileLookup", "true").parquet(self._folder)
