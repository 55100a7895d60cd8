"""A schema registry for tests: it speaks the REST of Confluent's, for as much of it as clients need."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from headrace.common.errors import InvalidProgramError
from headrace.formats.avro.resolution import decoder_of
from headrace.formats.avro.schema import AvroSchema


class Refusal(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.answer = {"error_code": code, "message": message}


class Registry:
    """What a registry knows; new schemas of a subject have to read what older ones wrote (``BACKWARD``).

    Attributes:
        requests: method and path of each request.
        failures: the next so many requests are answered with 503.
        user: ``user:password`` that it asks for.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []
        self.failures = 0
        self.user: str | None = None
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}

    def answer(self, method: str, path: str, question: Any, authorization: str | None) -> Any:
        self.requests.append(f"{method} {path}")
        if self.failures:
            self.failures -= 1
            raise Refusal(503, 50301, "try again")
        if self.user is not None and authorization != f"Basic {base64.b64encode(self.user.encode()).decode()}":
            raise Refusal(401, 401, "Unauthorized")
        place, _, _ = path.partition("?")  # ?format=serialized: schemas of Protobuf are kept so
        match [unquote(part) for part in place.strip("/").split("/")], method:
            case ["schemas", "ids", number], "GET":
                return self._of_id(int(number))
            case ["subjects", subject, "versions"], "POST":
                return {"id": self.register(subject, **question)}
            case ["subjects", subject, "versions", version], "GET":
                return self._version(subject, version)
            case ["subjects", subject], "POST":
                known = self._of_subject(subject)
                number = self._number(question)
                if number not in known:
                    raise Refusal(404, 40403, "Schema not found")
                return {"subject": subject, "id": number, "version": known.index(number) + 1, **question}
        return self._about_subjects(method, path, question)

    def _about_subjects(self, method: str, path: str, question: Any) -> Any:
        match [unquote(part) for part in path.partition("?")[0].strip("/").split("/")], method:
            case ["subjects"], "GET":
                return [*self._subjects]
            case ["subjects", subject, "versions"], "GET":
                return [*range(1, len(self._of_subject(subject)) + 1)]
            case ["config", subject], "GET":
                self._of_subject(subject)
                return {"compatibilityLevel": "BACKWARD"}
            case ["compatibility", "subjects", subject, "versions", "latest"], "POST":
                return self._compatible(subject, **question)
        raise Refusal(404, 404, f"HTTP 404 Not Found: {path}")

    def _compatible(self, subject: str, schema: str, schemaType: str = "AVRO", references: Any = ()) -> Any:
        try:
            document = {"schema": schema, "schemaType": schemaType, "references": list(references)}
            self._check(document, self._of_subject(subject))
        except Refusal as refusal:
            if refusal.status != 409:
                raise
            return {"is_compatible": False, "messages": [refusal.answer["message"]]}
        return {"is_compatible": True, "messages": []}

    def register(self, subject: str, schema: str, schemaType: str = "AVRO", references: Any = ()) -> int:
        document = {"schema": schema, "schemaType": schemaType, "references": list(references)}
        versions = self._subjects.setdefault(subject, [])
        number = self._number(document)
        if number is None:
            if schemaType == "AVRO":
                self._check(document, versions)
            self._schemas.append(document)
            number = len(self._schemas)
        if number not in versions:
            versions.append(number)
        return number

    def _check(self, document: dict[str, Any], versions: list[int]) -> None:
        try:
            reader = AvroSchema(document["schema"], self._texts(document)).node()
        except InvalidProgramError as error:
            raise Refusal(422, 42201, f"Invalid schema {document['schema']}: {error}") from None
        for number in versions[-1:]:
            older = self._schemas[number - 1]
            try:
                decoder_of(AvroSchema(older["schema"], self._texts(older)).node(), reader)
            except InvalidProgramError as error:
                raise Refusal(
                    409, 409, f"Schema being registered is incompatible with an earlier schema: {error}"
                ) from None

    def _texts(self, document: dict[str, Any]) -> list[str]:
        found = [self._version(each["subject"], each["version"]) for each in document["references"]]
        return [text for each in found for text in (*self._texts(each), each["schema"])]

    def _number(self, question: dict[str, Any]) -> int | None:
        wanted = {"schemaType": "AVRO", "references": [], **question}
        return next((number for number, known in enumerate(self._schemas, 1) if known == wanted), None)

    def _of_id(self, number: int) -> Any:
        if not 1 <= number <= len(self._schemas):
            raise Refusal(404, 40403, "Schema not found")
        return self._schemas[number - 1]

    def _of_subject(self, subject: str) -> list[int]:
        if subject not in self._subjects:
            raise Refusal(404, 40401, f"Subject '{subject}' not found.")
        return self._subjects[subject]

    def _version(self, subject: str, version: str | int) -> Any:
        versions = self._of_subject(subject)
        place = len(versions) if version == "latest" else int(version)
        if not 1 <= place <= len(versions):
            raise Refusal(404, 40402, f"Version {version} not found.")
        number = versions[place - 1]
        return {"subject": subject, "version": place, "id": number, **self._schemas[number - 1]}


@contextmanager
def serving(registry: Registry, certificate: Path | None = None) -> Iterator[Registry]:
    """Has a registry answer at its ``url``, with TLS where there is a certificate (with its key)."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            question = json.loads(self.rfile.read(length)) if length else None
            try:
                status, answer = 200, registry.answer(self.command, self.path, question, self.headers["Authorization"])
            except Refusal as refusal:
                status, answer = refusal.status, refusal.answer
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.url = f"{'http' if certificate is None else 'https'}://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
