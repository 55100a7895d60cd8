"""``OutputFileConfig``: what the files of a sink are called."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.common.arguments import expect
from headrace.common.errors import InvalidProgramError


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """The beginning and the end of the names of part files.

    Attributes:
        part_prefix: the beginning, ``part`` unless told otherwise.
        part_suffix: the end, ``.csv`` say; None for that of the format: ``.parquet`` for Parquet, else nothing.

    Examples:
        >>> from headrace.datastream.connectors import OutputFileConfig
        >>> names = OutputFileConfig.builder().with_part_prefix("orders").with_part_suffix(".csv").build()
    """

    class OutputFileConfigBuilder:
        """Puts an :class:`OutputFileConfig` together."""

        def __init__(self) -> None:
            self._prefix = "part"
            self._suffix: str | None = None

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Prefix of the names."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Suffix of the names."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """The configuration.

            Raises:
                InvalidProgramError: when files would be hidden or in another folder.
            """
            return OutputFileConfig(self._prefix, self._suffix)

    part_prefix: str = "part"
    part_suffix: str | None = None

    def __post_init__(self) -> None:
        expect(self.part_prefix, str, "part_prefix")
        expect(self.get_part_suffix(), str, "part_suffix")
        if not self.part_prefix or self.part_prefix[0] in "._":
            raise InvalidProgramError(f"the prefix {self.part_prefix!r} would make part files hidden")
        if "/" in self.part_prefix + self.get_part_suffix():
            raise InvalidProgramError("the prefix and the suffix of part files cannot contain '/'")

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Begin a configuration."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """The beginning of the names."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """The end of the names; empty where it is left to the format."""
        return self.part_suffix or ""

    def with_default_suffix(self, suffix: str) -> OutputFileConfig:
        """The same, with this suffix where none was chosen."""
        return replace(self, part_suffix=suffix) if self.part_suffix is None else self
