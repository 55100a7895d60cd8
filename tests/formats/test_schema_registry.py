"""Messages whose schemas are in a registry."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import fastjsonschema
import pyarrow as pa
import pytest

from headrace.common import JsonRowSerializationSchema, Row, Types
from headrace.common.columns import layout_of
from headrace.common.errors import (
    ConfigurationError,
    InfrastructureError,
    InvalidProgramError,
    InvalidTypeError,
    SchemaRegistryError,
)
from headrace.connectors.messages import MessageDecoder, MessageDeserializationSchema
from headrace.datastream.formats.avro import AvroSchema
from headrace.datastream.formats.schema_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    ConfluentRegistryJsonDeserializationSchema,
    ConfluentRegistryJsonSerializationSchema,
    SchemaRegistry,
)
from headrace.formats.json.schemas import json_schema_of
from headrace.formats.schema_registry import registry_client
from tests.connectors.harness import batch_of
from tests.connectors.test_incoming_messages import messages_of
from tests.formats.registry_server import Registry, serving
from tests.formats.test_avro import record
from tests.formats.test_json import NESTED, NESTED_ROW

V1 = record(id="long")
V2 = record(("id", "long"), ("card", ["null", "string"], None))
PAIR = Types.ROW_NAMED(["id", "card"], [int, str])


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as running:
        yield running


def message(schema_id: int, schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + stream.getvalue()


def rows_of(schema: Any, messages: list[bytes | None]) -> tuple[list[Any], dict[int, str]]:
    read = pickle.loads(pickle.dumps(schema)).deserialize_batch(pa.array(messages, pa.binary()))
    return layout_of(schema.get_produced_type()).columns_to_rows(read.columns), dict(read.rejected)


def test_messages_of_several_schemas_are_read_as_one(registry: Registry) -> None:
    first, second = (registry.register("orders-value", json.dumps(schema)) for schema in (V1, V2))
    reader = ConfluentRegistryAvroDeserializationSchema(registry.url, subject="orders-value")
    assert reader.get_produced_type() == PAIR
    messages = [
        message(second, V2, {"id": 1, "card": "x"}), message(first, V1, {"id": 2}), None,
        message(second, V2, {"id": 3, "card": None}), message(first, V1, {"id": 4}),
    ]  # fmt: skip
    rows, rejected = rows_of(reader, messages)
    assert rows == [Row(id=1, card="x"), Row(id=2, card=None), Row(id=3, card=None), Row(id=4, card=None)]
    assert not rejected
    assert rows_of(reader, [None]) == ([], {})
    assert registry.requests == [
        "GET /subjects/orders-value/versions/latest",
        "GET /schemas/ids/1",
        "GET /schemas/ids/2",
    ]


def test_messages_that_have_no_readable_schema(registry: Registry) -> None:
    other, texts = registry.register("other", json.dumps(record(id="string"))), registry.register("json", "{}", "JSON")
    good = registry.register("orders", json.dumps(V2))
    reader = ConfluentRegistryAvroDeserializationSchema(registry.url, AvroSchema(V2))
    value = message(good, V2, {"id": 1, "card": None})
    messages = [value, b"\x00\x00", b"{}{}{}", message(99, V2, {"id": 1, "card": None}), value[:-1], value,
                message(other, record(id="string"), {"id": ""}), message(texts, V1, {"id": 1})]  # fmt: skip
    rows, rejected = rows_of(reader, messages)
    assert rows == [Row(id=1, card=None)] * 2
    for index, reason in {
        1: "fewer than five bytes", 2: "not begin with a zero", 3: "no schema with the id 99", 4: "ends too early",
        6: "id: what was written as string cannot be read as long", 7: "of JSON, not of Avro",
    }.items():  # fmt: skip
        assert reason in rejected.pop(index)
    assert not rejected


def test_a_registry_that_does_not_answer_is_no_bad_message(registry: Registry) -> None:
    number = registry.register("orders", json.dumps(V1))
    reader = ConfluentRegistryAvroDeserializationSchema(registry.url, AvroSchema(V1), ignore_parse_errors=True)
    decoder = MessageDecoder(MessageDeserializationSchema(reader), reject=True)
    registry.failures = 1
    with pytest.raises(InfrastructureError, match=r"does not answer: .*503 try again"):
        decoder.decode(messages_of([message(number, V1, {"id": 1})]))
    assert len(decoder.decode(messages_of([message(number, V1, {"id": 1})]))) == 1


def test_the_first_url_that_answers_is_asked(registry: Registry) -> None:
    registry.register("orders", json.dumps(V1))
    several = SchemaRegistry(f"http://localhost:9, {registry.url}/")
    assert ConfluentRegistryAvroDeserializationSchema(several, subject="orders").get_produced_type()


def test_schemas_are_registered_once(registry: Registry) -> None:
    writer = ConfluentRegistryAvroSerializationSchema(registry.url, "a/b", AvroSchema(V2))
    assert not registry.requests, "the registry is asked where messages are written"
    written = writer.serialize_batch(batch_of(PAIR, [(1, "x"), (2, None)]))
    assert written.to_pylist() == [message(1, V2, {"id": 1, "card": "x"}), message(1, V2, {"id": 2, "card": None})]
    assert writer.serialize(Row(id=1, card="x")) == written[0].as_py()
    assert registry.requests == ["POST /subjects/a%2Fb/versions"]
    writer.validate(PAIR)
    with pytest.raises(InvalidTypeError):
        writer.validate(Types.TUPLE([int]))


def test_schemas_that_are_not_compatible_are_told(registry: Registry) -> None:
    registry.register("orders", json.dumps(V1))
    changed = AvroSchema(record(id="string"))
    with pytest.raises(SchemaRegistryError, match=r"not compatible .* id: what was written as long cannot .*Change it"):
        ConfluentRegistryAvroSerializationSchema(registry.url, "orders", changed).serialize(Row(id="x"))
    careful = ConfluentRegistryAvroSerializationSchema(registry.url, "orders", AvroSchema(V2), auto_register=False)
    with pytest.raises(SchemaRegistryError, match="auto_register is off"):
        careful.serialize(Row(id=1, card=None))
    known = ConfluentRegistryAvroSerializationSchema(registry.url, "orders", AvroSchema(V1), auto_register=False)
    assert known.serialize(Row(id=1)) == message(1, V1, {"id": 1})


def test_a_schema_is_made_of_a_type(registry: Registry) -> None:
    hard = ("point", "big", "dec", "instant", "map")
    fields = {n: of for n, of in zip(NESTED.field_names, NESTED.field_types, strict=True) if n not in hard}
    kind, row = Types.ROW_NAMED(list(fields), list(fields.values())), Row(**{name: NESTED_ROW[name] for name in fields})
    messages = ConfluentRegistryAvroSerializationSchema(registry.url, "s", kind).serialize_batch(batch_of(kind, [row]))
    reader = ConfluentRegistryAvroDeserializationSchema(registry.url, subject="s", legacy_timestamp_mapping=False)
    assert rows_of(reader, messages.to_pylist()) == ([row], {})
    with pytest.raises(InvalidTypeError, match=r"record\.d is BigDecimal, .*give the schema"):
        ConfluentRegistryAvroSerializationSchema(registry.url, "s", Types.ROW_NAMED(["d"], [Types.BIG_DEC()]))


def test_schemas_refer_to_others(registry: Registry) -> None:
    registry.register("card", json.dumps(record(number="string", name="Card")))
    registry.register(
        "holder",
        json.dumps(record(card="Card", name="Holder")),
        references=[{"name": "Card", "subject": "card", "version": 1}],
    )
    main = record(holder="Holder", card="Card")
    registry.register("main", json.dumps(main), references=[{"name": "Holder", "subject": "holder", "version": 1}])
    reader = ConfluentRegistryAvroDeserializationSchema(registry.url, subject="main")
    rows, _ = rows_of(reader, [b"\x00\x00\x00\x00\x03\x02a\x02b"])
    assert rows == [Row(holder=Row(card=Row(number="a")), card=Row(number="b"))]


def test_json_behind_a_header(registry: Registry) -> None:
    writer = ConfluentRegistryJsonSerializationSchema(registry.url, "s", NESTED)
    written = writer.serialize_batch(batch_of(NESTED, [NESTED_ROW]))
    assert written.to_pylist() == [writer.serialize(NESTED_ROW)]
    reader = ConfluentRegistryJsonDeserializationSchema(NESTED)
    rows, rejected = rows_of(reader, [*written.to_pylist(), b"{}", b"\x01\x00\x00\x00\x00{}"])
    assert rows == [NESTED_ROW]
    assert list(rejected) == [1, 2]
    schema = registry_client(SchemaRegistry(registry.url)).schema(1)
    assert schema.kind == "JSON"
    check = fastjsonschema.compile(json.loads(schema.text), use_formats=False)
    document = JsonRowSerializationSchema(NESTED).serialize(NESTED_ROW)
    check(json.loads(document))
    with pytest.raises(fastjsonschema.JsonSchemaException):
        check({"tags": [1]})
    assert json_schema_of(Types.LIST(float))["items"]["oneOf"][1] == {"type": ["number", "string"]}
    with pytest.raises(InvalidTypeError, match="has no JSON Schema"):
        json_schema_of(Types.PICKLED_BYTE_ARRAY())


def test_who_may_ask(registry: Registry, tmp_path: Path) -> None:
    registry.register("orders", json.dumps(V1))
    registry.user = "ann:secret"
    (tmp_path / "user").write_text("ann:secret\n")
    for given in ({"basic_auth_user_info": "ann:secret"}, {"basic_auth_user_info_file": str(tmp_path / "user")}):
        client = registry_client(SchemaRegistry(registry.url, **given))
        assert client.latest("orders").id == 1
        assert "secret" not in repr(SchemaRegistry(registry.url, **given))
    stranger = ConfluentRegistryAvroDeserializationSchema(registry.url, AvroSchema(V1), ignore_parse_errors=True)
    with pytest.raises(ConfigurationError, match="401 Unauthorized: give SchemaRegistry"):
        stranger.deserialize_batch(pa.array([message(1, V1, {"id": 1})] * 2))
    for wrong, message_ in [
        ({"url": "localhost:8081"}, "needs a URL"), ({"url": "http://a:b@host"}, "as basic_auth_user_info"),
        ({"url": "http://a", "basic_auth_user_info": "a:b", "bearer_auth_token_file": "t"}, "choose one"),
    ]:  # fmt: skip
        with pytest.raises(ConfigurationError, match=message_):
            SchemaRegistry(**wrong)
    with pytest.raises(ConfigurationError, match="should hold what logs in"):
        registry_client(SchemaRegistry(registry.url, bearer_auth_token_file=str(tmp_path / "none"))).latest("orders")


def test_connections_are_encrypted(tmp_path: Path) -> None:
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(self_signed())
    with serving(Registry(), certificate) as registry:
        registry.register("orders", json.dumps(V1))
        trusting = SchemaRegistry(registry.url, ssl_ca_location=str(certificate))
        assert registry_client(trusting).latest("orders").id == 1
        with pytest.raises(InfrastructureError, match="certificate verify failed"):
            registry_client(SchemaRegistry(registry.url)).latest("orders")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        registry_client(SchemaRegistry("https://localhost", ssl_ca_location=str(tmp_path / "none"))).latest("x")


def self_signed() -> bytes:
    """A certificate for localhost and its key."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    alternatives = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    signed = built.add_extension(alternatives, critical=False).sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return signed.public_bytes(pem) + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)


def test_what_has_to_be_given(registry: Registry) -> None:
    with pytest.raises(InvalidProgramError, match="give reader_schema, or the subject"):
        ConfluentRegistryAvroDeserializationSchema(registry.url)
    with pytest.raises(SchemaRegistryError, match="no version latest of the subject 'none'"):
        ConfluentRegistryAvroDeserializationSchema(registry.url, subject="none")
    registry.register("json", "{}", "JSON")
    with pytest.raises(InvalidProgramError, match="is one of JSON"):
        ConfluentRegistryAvroDeserializationSchema(registry.url, subject="json")
