"""``CsvSchema``: the columns of CSV files and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from headrace.common.builder import Builder
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import BasicTypeInfo, RowTypeInfo, SequenceTypeInfo, TypeInformation, Types


@dataclass(frozen=True, slots=True)
class CsvColumn:
    """One column.

    Attributes:
        name: its name.
        kind: the type of its values.
        separator: what separates the elements of an array; None for the schema's own.
    """

    name: str
    kind: TypeInformation
    separator: str | None = None


@dataclass(frozen=True, slots=True)
class CsvSchema:
    """The columns of CSV files, in order, and the characters that hold them together.

    Attributes:
        columns: the columns.
        delimiter: what separates columns.
        quote: what encloses values that hold special characters; None when values are never quoted.
        escape: what comes before a special character inside quotes; None when only doubled quotes are known.
        null_value: what stands for a missing value. None means that an empty value is missing, unless it is a string.
        array_separator: what separates the elements of arrays whose column has no separator of its own.
        line_separator: what is written after every line.
        header: whether the first line names the columns; it is left out.
        reorder: whether the columns of a file are found by the names in its header; else they come in this order,
            whatever it says.
        skip_first: whether the first line is left out unseen.
        strict_headers: whether the header has to name exactly the columns, in order.
        comments: whether lines that start with ``#`` are left out.
        any_property: the name of the column that takes what a line has behind its last column; a line with more values
            than columns is a bad record where no column has this name.

    Examples:
        >>> from headrace.datastream.formats.csv import CsvSchema
        >>> schema = CsvSchema.builder().add_string_column("card").add_number_column("amount").set_use_header().build()
        >>> schema.size()
        2
    """

    columns: tuple[CsvColumn, ...]
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_value: str | None = None
    array_separator: str = ";"
    line_separator: str = "\n"
    header: bool = False
    reorder: bool = False
    skip_first: bool = False
    strict_headers: bool = False
    comments: bool = False
    any_property: str | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise InvalidProgramError("a CsvSchema needs at least one column")
        for what, char in (("delimiter", self.delimiter), ("quote", self.quote), ("escape character", self.escape)):
            if char is not None and (len(char) != 1 or not char.isascii()):
                raise InvalidProgramError(f"the {what} of CSV is one ASCII character, not {char!r}")
        for column in self.columns:
            if isinstance(column.kind, SequenceTypeInfo) and not self.separator_of(column):
                raise InvalidProgramError(
                    f"nothing separates the elements of the array column {column.name!r}: "
                    "give it a separator with add_array_column(name, separator), or all of them one with "
                    "set_array_element_separator(separator)"
                )

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Begin a schema."""
        return CsvSchemaBuilder()

    def of_columns(self, names: Sequence[str]) -> CsvSchema:
        """The schema with some of its columns.

        Raises:
            InvalidProgramError: when there is no column of a name.
        """
        known = {column.name: column for column in self.columns}
        for name in names:
            if name not in known:
                raise InvalidProgramError(f"a CsvSchema of {', '.join(known)} has no column {name!r}")
        return replace(self, columns=tuple(known[name] for name in names))

    @staticmethod
    def of(kind: TypeInformation, **options: Any) -> CsvSchema:
        """The schema with the fields of a composite type as its columns.

        Args:
            kind: the type.
            options: attributes of the schema.

        Raises:
            InvalidTypeError: when the type has no fields, or one that cannot be written in a line.
        """
        if not kind.is_composite:
            raise InvalidTypeError(f"CSV needs records with named fields, such as Types.ROW_NAMED, not {kind}")
        names, kinds = kind.field_names, kind.field_types
        return CsvSchema(tuple(map(CsvColumn, names, map(check_kind, names, kinds))), **options)

    @property
    def row_type(self) -> TypeInformation:
        """The type of the records: named rows."""
        return RowTypeInfo(tuple(c.kind for c in self.columns), tuple(c.name for c in self.columns))

    def separator_of(self, column: CsvColumn) -> str:
        """The separator of the elements of an array column."""
        return self.array_separator if column.separator is None else column.separator

    def size(self) -> int:
        """Return how many columns there are."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def check_kind(name: str, kind: TypeInformation) -> TypeInformation:
    """Refuse the type of a column that has no form in CSV.

    Raises:
        InvalidTypeError: naming the column.
    """
    element = kind.element_type if isinstance(kind, SequenceTypeInfo) else kind
    if not isinstance(element, BasicTypeInfo):
        raise InvalidTypeError(f"column {name!r} is {kind}: CSV holds simple values and lists of them")
    return kind


class CsvSchemaBuilder(Builder):
    """Puts a :class:`CsvSchema` together, under PyFlink's names; types are ``Types`` or Python types.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.csv import CsvSchema
        >>> builder = CsvSchema.builder().set_column_separator("|").set_null_value("-")
        >>> _ = builder.add_number_column("id", Types.LONG()).add_array_column("tags", ",")
        >>> len(builder.build())
        2
    """

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[CsvColumn] = []

    def _add(self, name: str, kind: object, separator: str | None = None) -> Self:
        self._columns.append(CsvColumn(name, check_kind(name, Types.of(kind)), separator))
        return self

    def add_string_column(self, name: str) -> Self:
        """A column of strings."""
        return self._add(name, Types.STRING())

    def add_boolean_column(self, name: str) -> Self:
        """A column of ``true`` and ``false``."""
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: object = None) -> Self:
        """A column of numbers; ``LONG`` by default."""
        return self._add(name, Types.LONG() if number_type is None else number_type)

    def add_column(self, name: str, column_type: object) -> Self:
        """A column of any simple type, a date say."""
        return self._add(name, column_type)

    def add_array_column(self, name: str, separator: str = ";", element_type: Any = None) -> Self:
        """A column of lists; of strings by default."""
        return self._add(name, Types.LIST(Types.STRING() if element_type is None else element_type), separator)

    def add_columns_from(self, schema: CsvSchema) -> Self:
        """All columns of another schema."""
        self._columns += schema.columns
        return self

    def clear_columns(self) -> Self:
        """Forget all columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> Self:
        """Leave out lines that start with ``#``."""
        return self._set(comments=allow)

    def set_array_element_separator(self, separator: str) -> Self:
        """Set the separator of elements for arrays without one of their own; ``;`` unless set.

        As in Flink :meth:`add_array_column` gives one, which :meth:`remove_array_element_separator` takes away.
        """
        return self._set(array_separator=separator)

    def disable_array_element_separator(self) -> Self:
        """Have no separator but those of the columns."""
        return self._set(array_separator="")

    def remove_array_element_separator(self, index: int) -> Self:
        """Take a column's own separator away, so that its elements are separated as the schema says.

        Raises:
            InvalidProgramError: when there is no column of this index.
        """
        if not 0 <= index < len(self._columns):
            raise InvalidProgramError(f"there is no column {index}: the schema has {len(self._columns)} by now")
        self._columns[index] = replace(self._columns[index], separator=None)
        return self

    def set_any_property_name(self, name: str) -> Self:
        """Have the column of this name take what a line has behind its last column; of several values, the last.

        As in Flink, a line with more values than columns stays a bad record where no column has this name, or an array
        has it.
        """
        return self._set(any_property=name)

    def set_column_separator(self, char: str) -> Self:
        """Set the separator of columns; ``,`` unless set."""
        return self._set(delimiter=char)

    def set_escape_char(self, char: str) -> Self:
        """Set the character that escapes special ones; none unless set."""
        return self._set(escape=char)

    def disable_escape_char(self) -> Self:
        """Take every character for itself."""
        return self._set(escape=None)

    def set_line_separator(self, separator: str) -> Self:
        r"""Set the end of written lines; ``\n`` and ``\r\n`` are read in any case."""
        return self._set(line_separator=separator)

    def set_null_value(self, null_value: str) -> Self:
        """Set the text of a missing value, in columns of strings as well."""
        return self._set(null_value=null_value)

    def set_quote_char(self, char: str) -> Self:
        """Set the character that encloses values; ``"`` unless set."""
        return self._set(quote=char)

    def disable_quote_char(self) -> Self:
        """Take quotes for themselves."""
        return self._set(quote=None)

    def set_skip_first_data_row(self, skip: bool = True) -> Self:
        """Leave out the first line of every file."""
        return self._set(skip_first=skip)

    def set_strict_headers(self, strict: bool = True) -> Self:
        """Refuse files whose header is not exactly the columns in order."""
        return self._set(strict_headers=strict)

    def set_use_header(self, use: bool = True) -> Self:
        """The first line of every file names the columns and is left out; as in Flink they come in the schema's order.

        For files in which they do not, :meth:`set_reorder_columns` has them found by their names.
        """
        return self._set(header=use)

    def set_reorder_columns(self, reorder: bool = True) -> Self:
        """Find columns by the names in the header, in whatever order they come; others in the file are left out.

        Without a header it changes nothing.
        """
        return self._set(reorder=reorder)

    def size(self) -> int:
        """Return how many columns there are by now."""
        return len(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def build(self) -> CsvSchema:
        """The schema.

        Raises:
            InvalidProgramError: when there is no column, a character is none, or an array has no separator.
        """
        return CsvSchema(tuple(self._columns), **self._given)
