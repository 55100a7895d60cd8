"""``StreamFormat``, under PyFlink's name: where programs find the format of lines of text."""

from __future__ import annotations

from headrace.formats.file_format import FileFormat
from headrace.formats.text.reader import TextLineFormat


class StreamFormat(FileFormat):
    """The root of formats of one's own that are read as a stream of records."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> TextLineFormat:
        r"""Lines of text, as ``STRING`` records without their line ends (``\n`` or ``\r\n``).

        Args:
            charset_name: how characters are encoded; any that Python knows.

        Raises:
            ConfigurationError: when it knows none of that name.
        """
        return TextLineFormat(charset_name)
