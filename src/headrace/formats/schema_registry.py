"""A schema registry that speaks Confluent's REST API: its client, and its wire format.

A message begins with a zero and the id of its schema in four bytes. What was written with the schema follows.
"""

import base64
import json
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.errors import (
    ConfigurationError,
    HeadraceError,
    InfrastructureError,
    SchemaRegistryError,
    UnknownSchemaError,
)
from headrace.common.serialization import SchemaCheck, SerializationSchema
from headrace.common.typeinfo import TypeInformation

_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_LATEST: Final = "latest"
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_NOT_ALLOWED: Final = frozenset({401, 403})
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Answers that another attempt may change."""


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """The address of a schema registry and how to log in; it travels to the tasks with the job.

    Args:
        url: ``https://host:8081``; several with commas between them, of which the first one that answers is used.
        basic_auth_user_info: ``user:password``.
        basic_auth_user_info_file: a file that holds ``user:password``, on every machine that runs tasks: so the
            password is no part of the job.
        bearer_auth_token_file: likewise, a file that holds a token.
        ssl_ca_location: certificates of authorities that are trusted, in PEM; those of the machine when left out.
        ssl_certificate_location: the client's own certificate, in PEM.
        ssl_key_location: the key of this certificate, where it is in another file.
        timeout: seconds to wait for an answer.

    Raises:
        ConfigurationError: when the URL is none, or several ways to log in are given.

    Examples:
        >>> from headrace.datastream.formats.schema_registry import SchemaRegistry
        >>> SchemaRegistry("https://registry:8081", basic_auth_user_info="ann:secret")
        SchemaRegistry(url='https://registry:8081')
    """

    url: str
    basic_auth_user_info: str | None = field(default=None, repr=False)
    basic_auth_user_info_file: str | None = field(default=None, repr=False)
    bearer_auth_token_file: str | None = field(default=None, repr=False)
    ssl_ca_location: str | None = field(default=None, repr=False)
    ssl_certificate_location: str | None = field(default=None, repr=False)
    ssl_key_location: str | None = field(default=None, repr=False)
    timeout: float = field(default=30.0, repr=False)

    def __post_init__(self) -> None:
        for url in self.urls:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ConfigurationError(f"the schema registry needs a URL such as https://host:8081, not {url!r}")
            if parts.username is not None:
                raise ConfigurationError(
                    f"give the password of {parts.hostname} as basic_auth_user_info, not in the URL"
                )
        given = (self.basic_auth_user_info, self.basic_auth_user_info_file, self.bearer_auth_token_file)
        if sum(each is not None for each in given) > 1:
            raise ConfigurationError("choose one of basic_auth_user_info, ..._file and bearer_auth_token_file")

    @property
    def urls(self) -> list[str]:
        """Each of its URLs, without a slash at the end."""
        return [url.strip().rstrip("/") for url in self.url.split(",")]

    def authorization(self) -> Mapping[str, str]:
        """The header that logs in.

        Raises:
            ConfigurationError: when a file cannot be read.
        """
        if self.bearer_auth_token_file is not None:
            return {"Authorization": f"Bearer {_secret(self.bearer_auth_token_file)}"}
        user = self.basic_auth_user_info
        if self.basic_auth_user_info_file is not None:
            user = _secret(self.basic_auth_user_info_file)
        if user is None:
            return {}
        return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}

    def ssl_context(self) -> ssl.SSLContext:
        """Return how the other side is checked, and what it is shown."""
        try:
            context = ssl.create_default_context(cafile=self.ssl_ca_location)
            if self.ssl_certificate_location is not None:
                context.load_cert_chain(self.ssl_certificate_location, self.ssl_key_location)
        except OSError as error:
            raise ConfigurationError(f"the certificates for {self.url} cannot be read: {error}") from error
        return context


def registry_of(registry: SchemaRegistry | str) -> SchemaRegistry:
    """The registry itself, where its URL may be given."""
    return SchemaRegistry(registry) if isinstance(registry, str) else registry


def _secret(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"{path} should hold what logs in to the schema registry: {error}") from error


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it.

    Attributes:
        id: its number, the same for equal schemas of all subjects.
        text: the schema.
        kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.
        references: texts of the schemas that it refers to by name, each before those that refer to it.
        reference_names: the names by which they are referred to.
    """

    id: int
    text: str
    kind: str = "AVRO"
    references: tuple[str, ...] = ()
    reference_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReferencedSchema:
    """A schema that another one refers to; it is registered under a subject of its name.

    Attributes:
        name: what it is referred to by, the path in an ``import`` say.
        text: the schema.
        references: what it refers to itself.
    """

    name: str
    text: str
    references: "tuple[ReferencedSchema, ...]" = ()


@lru_cache(maxsize=64)
def registry_client(registry: SchemaRegistry) -> "RegistryClient":
    """This process's client of a registry."""
    return RegistryClient(registry)


class RegistryClient:
    """Queries a registry, once for each id: what has an id never changes."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._by_id: dict[tuple[int, str], RegisteredSchema] = {}
        self._ids: dict[tuple[str, str, str, bool], int] = {}

    def schema(self, schema_id: int, form: str = "") -> RegisteredSchema:
        """The schema of an id.

        Args:
            schema_id: the id.
            form: how the text is wanted, where the registry knows several: ``serialized`` is a compiled file of
                Protobuf.

        Raises:
            UnknownSchemaError: when there is none.
            ConfigurationError: when the registry does not let this client in.
            InfrastructureError: when the registry does not answer.
        """
        with self._lock:
            key = (schema_id, form)
            if key not in self._by_id:
                path = f"/schemas/ids/{schema_id}{_formatted(form)}"
                answer = self._ask("GET", path, f"there is no schema with the id {schema_id}")
                self._by_id[key] = self._registered(answer, schema_id, form)
            return self._by_id[key]

    def latest(self, subject: str, form: str = "") -> RegisteredSchema:
        """The newest schema of a subject; it is requested every time. ``form`` is that of :meth:`schema`."""
        answer = self._version(subject, _LATEST, form)
        return self._registered(answer, answer["id"], form)

    def subjects(self) -> list[str]:
        """All subjects by name."""
        return sorted(self._ask("GET", "/subjects", "there are no subjects"))

    def versions(self, subject: str) -> list[int]:
        """The numbers of the versions of a subject."""
        missing = f"there is no subject {subject!r}"
        return [int(each) for each in self._ask("GET", f"/subjects/{_quoted(subject)}/versions", missing)]

    def compatibility(self, subject: str) -> str:
        """The compatibility of new schemas of a subject: ``BACKWARD``, ``FULL_TRANSITIVE``, ``NONE`` and so on."""
        path = f"/config/{_quoted(subject)}?defaultToGlobal=true"
        return str(self._ask("GET", path, f"there is no subject {subject!r}")["compatibilityLevel"])

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """The schema of a version of a subject."""
        answer = self._version(subject, version, "")
        return self._registered(answer, answer["id"], "")

    def check(self, subject: str, text: str, kind: str, references: tuple[ReferencedSchema, ...] = ()) -> SchemaCheck:
        """Ask whether a schema could become the newest one of a subject, by the compatibility that this demands."""
        path = f"/compatibility/subjects/{_quoted(subject)}/versions/{_LATEST}?verbose=true"
        try:
            question = self._question(text, kind, references, False)
            answer = self._ask("POST", path, f"there is no subject {subject!r}", question)
        except UnknownSchemaError:
            return SchemaCheck(subject, is_new=True)
        problems = tuple(map(str, answer.get("messages", ()))) or ("the registry does not say why",)
        return SchemaCheck(subject, () if answer["is_compatible"] else problems)

    def id_of(
        self, subject: str, text: str, kind: str, *, register: bool, references: tuple[ReferencedSchema, ...] = ()
    ) -> int:
        """The id of a schema under a subject.

        Args:
            subject: where it is.
            text: the schema.
            kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.
            register: whether it becomes a new version of the subject if it is not there; else that is an error.
            references: what it refers to; that is registered likewise.

        Raises:
            SchemaRegistryError: when it is not there, or not compatible with those that are.
            InfrastructureError: when the registry does not answer.
        """
        key = (subject, text, kind, register)
        with self._lock:
            if key not in self._ids:
                question = self._question(text, kind, references, register)
                self._ids[key] = self._found(subject, question, register)["id"]
            return self._ids[key]

    def _question(self, text: str, kind: str, references: tuple[ReferencedSchema, ...], register: bool) -> Any:
        """A schema in the form of requests to the registry, once it has what this refers to."""
        question: dict[str, Any] = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
        for each in references:
            inner = self._question(each.text, kind, each.references, register)
            self._found(each.name, inner, register)
            version = self._found(each.name, inner, False)["version"]
            known = {"name": each.name, "subject": each.name, "version": version}
            question["references"] = [*question.get("references", ()), known]
        return question

    def _found(self, subject: str, question: Any, register: bool) -> Any:
        path = f"/subjects/{_quoted(subject)}" + ("/versions" if register else "")
        text = question["schema"]
        missing = f"the subject {subject!r} does not have the schema, and auto_register is off: {text[:200]}"
        return self._ask("POST", path, missing, question)

    def _version(self, subject: str, version: int | str, form: str) -> Any:
        path = f"/subjects/{_quoted(subject)}/versions/{version}{_formatted(form)}"
        return self._ask("GET", path, f"there is no version {version} of the subject {subject!r}")

    def _registered(self, answer: Any, schema_id: int, form: str) -> RegisteredSchema:
        texts: dict[str, str] = {}
        self._collect(answer, texts, form)
        kind = answer.get("schemaType", "AVRO")
        return RegisteredSchema(schema_id, answer["schema"], kind, tuple(texts), tuple(texts.values()))

    def _collect(self, answer: Any, texts: dict[str, str], form: str) -> None:
        """The schemas that one refers to with their names, those first to which these refer."""
        for reference in answer.get("references") or ():
            found = self._version(reference["subject"], reference["version"], form)
            self._collect(found, texts, form)
            texts[found["schema"]] = reference["name"]

    def _ask(self, method: str, path: str, missing: str, question: object = None) -> Any:
        """Ask each URL in turn until one answers."""
        failures = []
        for url in self._registry.urls:
            try:
                return self._ask_one(url, method, path, question)
            except urllib.error.HTTPError as error:
                reason = _reason_of(error)
                if error.code not in _PASSING:
                    raise self._refused(error.code, reason, url, missing) from None
                failures.append(f"{url}: {error.code} {reason}")
            except ConfigurationError:
                raise
            except (OSError, ValueError) as error:
                failures.append(f"{url}: {error}")
        raise InfrastructureError(f"the schema registry does not answer: {'; '.join(failures)}")

    def _ask_one(self, url: str, method: str, path: str, question: object) -> Any:
        headers = {"Accept": _CONTENT, "Content-Type": _CONTENT, **self._registry.authorization()}
        data = None if question is None else json.dumps(question).encode()
        request = urllib.request.Request(url + path, data, headers, method=method)
        context = self._registry.ssl_context() if url.startswith("https") else None
        with urllib.request.urlopen(request, timeout=self._registry.timeout, context=context) as response:
            return json.load(response)

    def _refused(self, code: int, why: str, url: str, missing: str) -> HeadraceError:
        if code == _NOT_FOUND:
            return UnknownSchemaError(f"{url}: {missing} ({why})")
        if code in _NOT_ALLOWED:
            return ConfigurationError(f"{url}: {code} {why}: give SchemaRegistry(...) a user, a token or a certificate")
        if code == _CONFLICT:
            return SchemaRegistryError(
                f"{url}: the schema is not compatible with those that the subject has: {why}. Change it (a new field "
                "needs a default, say), change the compatibility of the subject, or write to another subject"
            )
        return SchemaRegistryError(f"{url}: {code} {why}")


def _reason_of(error: urllib.error.HTTPError) -> str:
    try:
        answer = json.load(error)
        return str(answer.get("message", answer))
    except (OSError, ValueError, AttributeError):
        return str(error.reason)


def _formatted(form: str) -> str:
    return f"?format={form}" if form else ""


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


HEADER_BYTES: Final = 5


def schema_ids(messages: pa.Array) -> npt.NDArray[Any]:
    """The ids of the schemas of messages, none of which is null.

    Raises:
        ValueError: when one does not begin as the wire format does.
    """
    heads = pc.binary_slice(messages.cast(pa.binary()), 0, HEADER_BYTES)
    if not pc.all(pc.equal(pc.binary_length(heads), HEADER_BYTES), min_count=0).as_py():
        raise ValueError("it has fewer than five bytes, so there is no id of a schema")
    _, offsets, data = heads.buffers()
    start = int(np.frombuffer(offsets, np.int32)[heads.offset]) if len(heads) else 0
    flat = (
        np.frombuffer(data, np.uint8)[start : start + HEADER_BYTES * len(heads)]
        if len(heads)
        else np.zeros(0, np.uint8)
    )
    rows = flat.reshape(-1, HEADER_BYTES)
    if rows[:, 0].any():
        raise ValueError("it does not begin with a zero: it was not written with a schema registry")
    ids: npt.NDArray[Any] = np.ascontiguousarray(rows[:, 1:]).view(">u4").reshape(-1).astype(np.int64)
    return ids


def decode_by_schema(messages: pa.Array, decode: Callable[[int, pa.Array], pa.RecordBatch]) -> pa.RecordBatch | None:
    """The records of messages that were written with several schemas; None when there are no messages.

    Args:
        messages: messages with headers.
        decode: gives the records of messages of one id.

    Raises:
        ValueError: when a message has no header, and what ``decode`` raises.
    """
    ids = schema_ids(messages)
    known = np.unique(ids)
    if len(known) <= 1:
        return decode(int(known[0]), messages) if len(known) else None
    rows = [np.flatnonzero(ids == schema_id) for schema_id in known]
    parts = [
        decode(int(schema_id), messages.take(pa.array(found))) for schema_id, found in zip(known, rows, strict=True)
    ]
    places = np.empty(len(messages), np.int64)
    places[np.concatenate(rows)] = np.arange(len(messages))
    return pa.concat_batches(parts).take(pa.array(places))


def without_header(messages: pa.Array) -> pa.Array:
    """Cut the headers off."""
    schema_ids(messages)
    return pc.binary_slice(messages.cast(pa.binary()), HEADER_BYTES)


@dataclass(frozen=True, slots=True)
class SchemaHeader:
    """The id of a schema, which the task requests from the registry before the first message.

    Attributes:
        registry: the registry.
        subject: where the schema is.
        text: the schema.
        kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.
        register: whether it becomes a new version of the subject if it is not there.
        references: what it refers to.
        more: what else is in front of every message.
    """

    registry: SchemaRegistry
    subject: str
    text: str
    kind: str
    register: bool
    references: tuple[ReferencedSchema, ...] = ()
    more: bytes = b""

    def content(self) -> bytes:
        """The prefix of every message; the id is looked up once per process."""
        client = registry_client(self.registry)
        schema_id = client.id_of(self.subject, self.text, self.kind, register=self.register, references=self.references)
        return b"\x00" + schema_id.to_bytes(HEADER_BYTES - 1, "big") + self.more

    def before_all(self, messages: pa.Array) -> pa.Array:
        """Messages behind the header; those without a value stay so."""
        return pc.binary_join_element_wise(
            pa.scalar(self.content(), pa.binary()), messages, pa.scalar(b"", pa.binary())
        )


class RegistrySerializationSchema(SerializationSchema):
    """Writes records as another schema does, behind the header.

    Args:
        header: what is in front of every message.
        inner: writes what follows.
    """

    def __init__(self, header: SchemaHeader, inner: SerializationSchema) -> None:
        self._header = header
        self._inner = inner

    def check_schemas(self, subjects: Sequence[str]) -> Iterator[SchemaCheck]:
        """Ask whether consumers that the subject's compatibility stands for can read what is written."""
        header = self._header
        yield registry_client(header.registry).check(header.subject, header.text, header.kind, header.references)

    def serialize(self, element: Any) -> bytes | None:
        """The header and the message of one record."""
        message = self._inner.serialize(element)
        return None if message is None else self._header.content() + message

    def serialize_batch(self, batch: Batch) -> pa.Array:
        return self._header.before_all(self._inner.serialize_batch(batch))

    def validate(self, input_type: TypeInformation) -> None:
        self._inner.validate(input_type)
