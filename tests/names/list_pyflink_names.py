"""Makes ``pyflink_names.txt``, the list of PyFlink's public names, from a wheel of ``apache-flink``.

    pip download --no-deps apache-flink
    python tests/names/list_pyflink_names.py apache_flink-*.whl > tests/names/pyflink_names.txt

A line is a module, what can be imported from it, or a method of a class, where the class is defined. Nothing is
imported from the wheel: its sources are parsed.
"""

from __future__ import annotations

import ast
import re
import sys
import zipfile

PRIVATE = re.compile(
    r"pyflink\.(bin|conf|examples|fn_execution|log|tests|testing|version|shell|gen_protos|serializers)\b"
)
"""Modules that no program imports, beside those with an underscore and those that hold Java together."""

PLUMBING = re.compile(r".*(gateway|java_utils|find_flink_home|callback_server|\.utils$|\.tests\b)")


def main(wheel: str) -> None:
    """Prints the list."""
    version = re.search(r"apache_flink-([\d.]+)-", wheel)
    print(f"# Public names of PyFlink {version and version[1]}, made by list_pyflink_names.py.")
    with zipfile.ZipFile(wheel) as archive:
        sources = {
            path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): archive.read(path).decode()
            for path in archive.namelist()
            if path.startswith("pyflink/") and path.endswith(".py")
        }
    for module in sorted(sources):
        if not PRIVATE.match(module) and not PLUMBING.match(module):
            print(module)
            names = names_of(ast.parse(sources[module])) if "." in module else set()
            for name in sorted(names):
                print(f"{module}.{name}")


def names_of(module: ast.Module) -> set[str]:
    """What a module hands out, with the methods and inner classes of the classes that are defined in it."""
    names = {name for node in module.body for name in _defined(node)}
    return names | {name for node in ast.walk(module) for name in _handed_out(node)}


def _defined(node: ast.stmt) -> list[str]:
    if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
        return []
    inner = node.body if isinstance(node, ast.ClassDef) else []
    return [node.name, *(f"{node.name}.{name}" for each in inner for name in _defined(each))]


def _handed_out(node: ast.AST) -> list[str]:
    """The names in ``__all__``, or the one that a module adds to a package for old programs."""
    match node:
        case ast.Assign(targets=[ast.Name("__all__")], value=value):
            return [str(name) for name in ast.literal_eval(value)]
        case ast.Call(func=ast.Name("setattr"), args=[ast.Name("common"), ast.Constant(str(name)), _]):
            return [name]
    return []


if __name__ == "__main__":
    main(sys.argv[1])
