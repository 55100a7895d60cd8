"""Cross-references in docstrings as the site understands them: ``:meth:`push``` becomes a link."""

from __future__ import annotations

import re
from typing import Any

from griffe import Class, Extension, Object

ROLE = re.compile(r":(?:attr|class|exc|func|meth|mod):`(~?)([\w.]+)`")


class Roles(Extension):
    """Rewrites the roles in the docstring of each object that is loaded."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Makes links of the roles; a name without dots is looked for beside the object."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(lambda found: _link(found, obj), obj.docstring.value)


def _link(found: re.Match[str], obj: Object) -> str:
    short, path = bool(found[1]), found[2]
    shown = path.rpartition(".")[2] if short else path
    if path.startswith("headrace."):
        return f"[`{shown}`][{path}]"
    owner = obj if isinstance(obj, Class) else obj.parent
    member = None if owner is None else owner.members.get(path)
    is_shown = member is not None and not member.is_alias and member.has_docstring
    return f"[`{shown}`][{owner.path}.{path}]" if is_shown else f"`{shown}`"
