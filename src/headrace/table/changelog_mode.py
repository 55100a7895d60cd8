"""The row kinds of a changelog."""

from headrace.common.public_module import public_module
from headrace.table.connectors.changelog_mode import ChangelogMode

__all__ = ["ChangelogMode"]

public_module(__name__)
