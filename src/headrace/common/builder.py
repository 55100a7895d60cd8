"""The base class of builders."""

from typing import Any, ClassVar, Self

from headrace.common.errors import expect, refused


class Builder:
    """Keeps what its methods are given, as arguments of what it builds."""

    _name: ClassVar[str]
    """The name of what is built, for errors."""

    def __init__(self) -> None:
        super().__init__()
        self._given: dict[str, Any] = {}

    def _set(self, **arguments: Any) -> Self:
        self._given |= arguments
        return self

    def _set_a(self, kind: type, method: str, **arguments: object) -> Self:
        """Keep arguments that have to be of a class; errors begin with the name of the method."""
        for argument in arguments.values():
            expect(argument, kind, method)
        return self._set(**arguments)

    def _needed(self, argument: str, advice: str) -> Any:
        """An argument that there has to be.

        Raises:
            InvalidProgramError: when it was not given, with what to do.
        """
        if argument not in self._given:
            raise refused(f"a {self._name} needs {advice}")
        return self._given[argument]
