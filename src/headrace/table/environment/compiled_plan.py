"""``CompiledPlan``: a plan that later sessions execute, whatever has become of catalogs and of the planner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote, urlparse

from headrace.common.configuration import Configuration
from headrace.common.durable import create_exclusively, write_file
from headrace.common.errors import InvalidProgramError, UnsupportedOperationError
from headrace.table.bind.user_functions import definition_of
from headrace.table.catalog.objects import CatalogTable, ObjectPath
from headrace.table.explain.text import compiled_plan_text
from headrace.table.functions.definitions import FunctionDefinition
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Relation, Scan, Sink
from headrace.table.options import FORCE_RECOMPILE
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.statements import ExplainDetail
from headrace.table.plans.changes import change_between
from headrace.table.plans.document import CompiledStatements, UidsOf, is_secret, no_uids, secret_in_statement

if TYPE_CHECKING:
    from headrace.table.environment.table_environment import TableEnvironment
    from headrace.table.environment.table_result import TableResult

_NO_SMILE = "plans are JSON here, and not Smile, its binary form: "


class PlanReference(ABC):
    """The place of a compiled plan: a file, or a text.

    Examples:
        >>> from headrace.table import PlanReference
        >>> PlanReference.from_file("/plans/totals.json").get_file()
        '/plans/totals.json'
    """

    @staticmethod
    def from_file(path: str | Path) -> FilePlanReference:
        """The plan in a file."""
        return FilePlanReference(str(path))

    @staticmethod
    def from_json_string(json_string: str) -> JsonContentPlanReference:
        """The plan in a text, as :meth:`CompiledPlan.as_json_string` gives it."""
        return JsonContentPlanReference(json_string)

    @staticmethod
    def from_smile_bytes(smile_bytes: bytes) -> NoReturn:
        """Not supported: plans are JSON.

        Raises:
            UnsupportedOperationError: always.
        """
        del smile_bytes
        raise UnsupportedOperationError(f"{_NO_SMILE}use from_json_string()")

    @abstractmethod
    def text(self) -> str:
        """The plan's JSON.

        Raises:
            PlanningError: when there is no such file.
        """


@dataclass(frozen=True, slots=True)
class FilePlanReference(PlanReference):
    """A plan in a file.

    Examples:
        >>> from headrace.table.plan_reference import FilePlanReference
        >>> FilePlanReference("/plans/totals.json").get_file()
        '/plans/totals.json'
    """

    path: str

    def get_file(self) -> str:
        """The path of the file."""
        return self.path

    def text(self) -> str:
        try:
            return local_path(self.path).read_text("utf-8")
        except FileNotFoundError as error:
            raise PlanningError(
                f"there is no compiled plan {self.path!r}: COMPILE PLAN '{self.path}' FOR INSERT ... makes one"
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise PlanningError(f"{self.path!r} cannot be read as a compiled plan: {error}") from error


@dataclass(frozen=True, slots=True)
class JsonContentPlanReference(PlanReference):
    """A plan in a text.

    Examples:
        >>> from headrace.table.plan_reference import JsonContentPlanReference
        >>> JsonContentPlanReference("{}").get_content()
        '{}'
    """

    content: str

    def get_content(self) -> str:
        """The text."""
        return self.content

    def text(self) -> str:
        return self.content


def local_path(text: str) -> Path:
    """The path of a plan's file.

    Raises:
        UnsupportedOperationError: for a URI of another storage.
    """
    parsed = urlparse(text)
    if parsed.scheme not in ("", "file"):
        raise UnsupportedOperationError(f"compiled plans are in files that the program can open, and not at {text}")
    return Path(unquote(parsed.path) if parsed.scheme else text).expanduser()


class CompiledPlan:
    """The plan of one or several ``INSERT`` statements, with the uids of all operators.

    It holds the definitions of the tables that are read and written, and names user-defined functions, which have to be
    registered where it is executed.

    Examples:
        >>> from headrace.table import TableEnvironment
        >>> tables = TableEnvironment.create()
        >>> _ = tables.get_config().set("headrace.runtime", "local")
        >>> _ = tables.execute_sql("CREATE TABLE numbers (n INT) WITH ('connector' = 'blackhole')")
        >>> plan = tables.compile_plan_sql("INSERT INTO numbers VALUES (1), (2)")
        >>> _ = tables.execute_sql("DROP TABLE numbers")
        >>> plan.execute().wait()
    """

    def __init__(self, environment: TableEnvironment, statements: CompiledStatements) -> None:
        self._environment, self._statements = environment, statements

    def as_json_string(self) -> str:
        """The plan as JSON."""
        return self._statements.to_json()

    def as_smile_bytes(self) -> bytes:
        """Not supported: plans are JSON.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(f"{_NO_SMILE}use as_json_string()")

    def print_json_string(self) -> None:
        """Print the plan as JSON."""
        print(self.as_json_string())  # noqa: T201 - what it is for

    def write_to_file(self, file: str | Path, ignore_if_exists: bool = False) -> None:
        """Write the plan to a file.

        With ``table.plan.force-recompile`` a file that exists is replaced, if the plan can go on with the state of the
        plan in it.

        Args:
            file: the path.
            ignore_if_exists: whether nothing happens if the file exists.

        Raises:
            InvalidProgramError: when the file exists.
            ChangedPlanError: when it is to be replaced, and state would be lost.
        """
        path, text = local_path(str(file)), self.as_json_string()
        if path.exists() and ignore_if_exists:
            return
        if self._environment.planner().settings.get(FORCE_RECOMPILE):
            write_file(path, [text.encode()])
        elif not create_exclusively(path, text.encode()):
            raise InvalidProgramError(
                f"Cannot overwrite the plan file '{file}'. Either manually remove the file or, if the statement has "
                f"changed and is to go on with the state of the plan before, set the option '{FORCE_RECOMPILE.key}' to "
                "true."
            )

    def get_flink_version(self) -> str:
        """The version of headrace that compiled the plan."""
        return self._statements.version

    def explain(self, *extra_details: ExplainDetail) -> str:
        """The plan as ``EXPLAIN`` shows it.

        Args:
            extra_details: what to add to it.
        """
        return compiled_plan_text(self._statements.roots, extra_details, is_batch=self._statements.is_batch)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plan."""
        print(self.explain(*extra_details))  # noqa: T201 - what it is for

    def execute(self) -> TableResult:
        """Start the job.

        Raises:
            InvalidProgramError: when the plan is of the other mode.
        """
        tables = self._environment
        if self._statements.is_batch != tables.is_batch:
            modes = ("STREAMING", "BATCH")
            raise InvalidProgramError(
                f"the plan was compiled in {modes[self._statements.is_batch]} mode, and the session is in "
                f"{modes[tables.is_batch]}: set 'execution.runtime-mode'"
            )
        return tables.run_compiled(self._statements)


def compiled_plan(tables: TableEnvironment, relations: Sequence[Relation], before: str | None = None) -> CompiledPlan:
    """Compile statements that become one job.

    Args:
        tables: the environment.
        relations: the statements.
        before: the JSON of the plan whose state it is to go on with; None to begin anew.

    Raises:
        PlanningError: when they cannot be planned.
        ChangedPlanError: when they cannot go on with the state.
    """
    planner = tables.planner()
    roots = planner.plan(relations, is_kept=True)
    uids_of: UidsOf = no_uids
    if before is not None:
        uids_of = change_between(_statements(tables, before), roots).uids_of
    made = CompiledStatements.of(roots, is_batch=tables.is_batch, settings=planner.settings, uids_of=uids_of)
    made.to_json()  # which refuses what exists in this session alone
    for relation in relations:
        _refuse_secrets(tables, relation)
    return CompiledPlan(tables, made)


def _refuse_secrets(tables: TableEnvironment, relation: Relation) -> None:
    """Refuse secrets in hints of a statement, which sessions that load the plan would not find in their tables."""
    for node in relation.walk():
        if not isinstance(node, Scan | Sink):
            continue
        table = tables.catalogs.table(ObjectPath(*node.path))
        known = dict(table.options) if isinstance(table, CatalogTable) else dict(node.options)
        for key, text in node.options:
            if is_secret(key, text) and known.get(key) != text:
                raise secret_in_statement(key)


def loaded_plan(tables: TableEnvironment, reference: PlanReference) -> CompiledPlan:
    """The plan of a reference.

    Raises:
        PlanningError: when there is no such file, or it holds no compiled plan.
    """
    text = reference.text()
    try:
        return CompiledPlan(tables, _statements(tables, text))
    except PlanningError as error:
        if isinstance(reference, FilePlanReference):
            raise PlanningError(f"{reference.path!r}: {error}") from error
        raise


def plan_to_replace(tables: TableEnvironment, path: str) -> str | None:
    """The plan in a file, if it is to be replaced by one that goes on with its state."""
    file = local_path(path)
    return file.read_text() if tables.planner().settings.get(FORCE_RECOMPILE) and file.exists() else None


def _statements(tables: TableEnvironment, text: str) -> CompiledStatements:
    settings = Configuration.from_dict(tables.session_settings())
    return CompiledStatements.from_json(text, settings, _NamedInPlan(tables))


@dataclass(frozen=True)
class _NamedInPlan:
    """Functions of an environment, and secrets of its tables and models."""

    tables: TableEnvironment

    def function(self, path: tuple[str, ...]) -> FunctionDefinition:
        created: Any = self.tables.catalogs.function(path)
        name = ".".join(path)
        if created is None:
            raise PlanningError(f"the compiled plan calls the function {name}, which is not there: register it first")
        context = self.tables.bind_context(SqlSource(name))
        return definition_of(context.imported_function(created), path)

    def secret(self, kind: str, path: tuple[str, ...], key: str) -> str:
        catalogs, full = self.tables.catalogs, ObjectPath(*path)
        if kind == "table":
            found: Any = catalogs.table(full)
        else:
            found = catalogs.temporary_models.get(full, catalogs.models.get(full))
        options = dict(getattr(found, "options", ()))
        if key not in options:
            raise PlanningError(
                f"the compiled plan does not hold the secret '{key}' of {kind} {full}, and the session has no {kind} "
                f"of that name with the option: create the {kind}; or write the option there as a reference to the "
                "secret, '${env:NAME}', which is part of a plan, and compile it anew"
            )
        return str(options[key])
