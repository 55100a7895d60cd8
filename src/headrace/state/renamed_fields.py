"""``RenamedFields``: which fields of records have other names now than in what is stored."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from headrace.common.errors import refused
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.base import MapTypeInfo, SequenceTypeInfo
from headrace.common.typeinfo.composite import CompositeTypeInfo

_METHOD: Final = "set_renamed_fields"


@dataclass(frozen=True, slots=True)
class RenamedFields:
    """New names of fields by their old ones.

    A path leads to a stored field through the names of the records that it is in, ``address.zip``. Those in a list, or
    among the values of a map, have the path of that.

    Attributes:
        names: new names, by the paths that the program gives.
        places: where the program's records are in what is stored, which an operator may have put into tuples of its
            own: by the path there, that which the program knows.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=lambda: {"": ""})

    @classmethod
    def given(cls, renamed: object) -> Self:
        """What a program says by ``set_renamed_fields``.

        Raises:
            InvalidProgramError: when it is no mapping of names to others.
        """
        if not isinstance(renamed, Mapping):
            raise refused(f"{_METHOD} takes new names by old ones, as in {{'count': 'visits'}}, not {renamed!r}")
        for path, name in renamed.items():
            if not (_is_path(path) and _is_path(name) and "." not in name):
                raise refused(
                    f"{_METHOD} takes the new name of a field by its old one, or by its path, as in "
                    f"{{'address.zip': 'postcode'}}, not {{{path!r}: {name!r}}}"
                )
            if last_of(path) == name:
                raise refused(f"{_METHOD}: the field {path!r} has that name already: leave it out")
        new = Counter(inside(parent_of(path), name) for path, name in renamed.items())
        for path, count in new.items():
            if count > 1:
                raise refused(f"{_METHOD}: {count} fields would be called {last_of(path)!r}")
        return cls(dict(renamed))

    def __bool__(self) -> bool:
        return bool(self.names)

    def inside(self, field_name: str) -> "RenamedFields":
        """The same for records that are kept in a field of a tuple, with something else beside them."""
        return replace(self, places={inside(field_name, place): known for place, known in self.places.items()})

    def of_parts(self, parts: Mapping[str, str]) -> "RenamedFields":
        """The same for a tuple of several records, each with a path of its own.

        Args:
            parts: what the program's paths begin with, by the fields of the tuple.
        """
        return replace(self, places=parts)

    def known_as(self, path: str) -> str:
        """The path that the program knows a stored field by."""
        for place, known in self.places.items():
            if not place or path == place or path.startswith(f"{place}."):
                return inside(known, path[len(place) :].removeprefix("."))
        return path

    def new_name(self, path: str, name: str) -> str:
        """What a field is called now that has a name in the stored record with a path."""
        return self.names.get(self.known_as(inside(path, name)), name)

    def expected_in(self, path: str) -> Iterator[tuple[str, str]]:
        """Old and new names of the fields of the record with a path in what is stored."""
        known = self.known_as(path)
        return ((last_of(old), new) for old, new in self.names.items() if parent_of(old) == known)

    def unfit(self, records: Mapping[str, TypeInformation]) -> list[str]:
        """What is said of fields that the declared records do not have, in words; empty when all is well.

        Args:
            records: the types of the records, by what the program's paths to their fields begin with.
        """
        told = (self._unfit(path, name, records) for path, name in self.names.items())
        return [each for each in told if each]

    def _unfit(self, path: str, name: str, records: Mapping[str, TypeInformation]) -> str:
        begun = {part: kind for part, kind in records.items() if not part or path.startswith(f"{part}.")}
        if not begun:
            return f"{path!r} has to begin with {' or '.join(repr(f'{part}.') for part in records)}"
        found = [record for part, kind in begun.items() if (record := self._declared_parent(path, part, kind))]
        if any(name in record.field_names for record in found):
            return ""
        if not found:
            return f"there are no records at {parent_of(path)!r} in {' or '.join(map(str, begun.values()))}"
        fields = " or ".join(", ".join(map(repr, record.field_names)) for record in found)
        return f"{path!r} cannot be called {name!r}: the fields of the record are {fields}"

    def _declared_parent(self, path: str, part: str, kind: TypeInformation) -> CompositeTypeInfo | None:
        """The declared record that has a field now; None where there is none."""
        known, found = part, _elements_of(kind)
        for step in filter(None, parent_of(path)[len(part) :].split(".")):
            known = inside(known, step)
            name = self.names.get(known, step)
            if not isinstance(found, CompositeTypeInfo) or name not in found.field_names:
                return None
            found = _elements_of(found.field_types[found.field_index(name)])
        return found if isinstance(found, CompositeTypeInfo) else None


NOTHING_RENAMED: Final = RenamedFields()


def inside(path: str, name: str) -> str:
    """The path of what has another path within the record with a path; that of the record itself is empty."""
    return f"{path}.{name}" if path and name else path or name


def parent_of(path: str) -> str:
    """The path of the record that a field is in."""
    return path.rpartition(".")[0]


def last_of(path: str) -> str:
    """The name of the field that a path leads to."""
    return path.rpartition(".")[2]


def _is_path(text: object) -> bool:
    return isinstance(text, str) and all(text.split("."))


def _elements_of(kind: TypeInformation) -> TypeInformation:
    """What is in lists and maps."""
    while isinstance(kind, SequenceTypeInfo | MapTypeInfo):
        kind = kind.element_type if isinstance(kind, SequenceTypeInfo) else kind.value_type
    return kind
