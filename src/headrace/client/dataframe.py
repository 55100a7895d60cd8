"""The results of a bounded job as a Spark DataFrame."""

import atexit
from collections.abc import Callable
from typing import Any

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.durable import TemporaryFolder
from headrace.common.errors import InvalidTypeError, UnsupportedOperationError
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.file_system.sink import FileSink
from headrace.connectors.sink import Sink
from headrace.formats.parquet import ParquetBulkWriters


def dataframe_sink(type_: TypeInformation, configuration: Configuration) -> tuple[Sink, Callable[[], Any]]:
    """A sink into files that last as long as the process, and what has Spark read them.

    Args:
        type_: the type of the records; it must have columns.
        configuration: the job's.

    Raises:
        InvalidTypeError: when the records have no columns.
        UnsupportedOperationError: on the local runtime.
    """
    if type_.arrow_type is None:
        raise InvalidTypeError(
            f"records of type {type_} have no columns: declare an output type, or annotate the function"
        )
    if configuration.get(options.RUNTIME) == "local":
        raise UnsupportedOperationError("to_dataframe() needs Spark; on the local runtime use execute_and_collect()")
    temporary = TemporaryFolder("dataframe-")
    atexit.register(temporary.remove)  # Spark reads the files whenever it evaluates the DataFrame
    folder = str(temporary.path)

    def dataframe() -> Any:
        from headrace.runtime.spark.session import acquire_session

        session = acquire_session(configuration.spark_options(), configuration.get(options.SPARK_MASTER)).session
        return session.read.option("recursiveFileLookup", "true").parquet(folder)

    return FileSink.for_bulk_format(folder, ParquetBulkWriters.for_row_type(type_)).build(), dataframe
