"""Secrets in texts: every form in which they come is masked, and nothing else is."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common import Configuration
from headrace.common.configuration import masked
from headrace.common.errors import CheckpointStorageError, ConfigurationError, HeadraceError, UnknownTopicError
from headrace.common.logs import JsonFormatter, TextFormatter
from headrace.common.masking import MASK, log_without_secrets, without_secrets

HUSH = "hush-h4sh"

SECRETS = {
    "address": f"s3://key:{HUSH}@bucket/a",
    "address without a user": f"redis://:{HUSH}@host:6379/0",
    "odd password": f"postgresql://me:{HUSH}/and@more@host:5432/db",
    "several hosts": f"mongodb://me:{HUSH}@h1:27017,h2:27017/db",
    "parameter of JDBC": f"jdbc:postgresql://host:5432/db?user=me&password={HUSH}&ssl=true",
    "SQL Server": f"jdbc:sqlserver://host;user=sa;Password={HUSH};encrypt=true",
    "Oracle": f"jdbc:oracle:thin:scott/{HUSH}@host:1521:db",
    "ODBC": f"Driver=x;Server=h;Uid=sa;Pwd={HUSH};",
    "Azure": f"AccountName=me;AccountKey={HUSH}==;EndpointSuffix=core",
    "shared access signature": f"https://me.blob.core/container?sv=2024&sig={HUSH}&se=2030",
    "presigned": f"https://bucket.s3/a?X-Amz-Credential={HUSH}&X-Amz-Signature={HUSH}",
    "login of Kafka": f'PlainLoginModule required username="me" password="it\\"s {HUSH}";',
    "settings of Kafka": f"{{'sasl.jaas.config': 'PlainLoginModule required password=\"{HUSH}\";', 'group.id': 'g'}}",
    "options of SQL": f"WITH ('connector' = 'kafka', 'properties.sasl.password' = 'it''s {HUSH}', 'topic' = 't')",
    "JSON": f'{{"user": "me", "password": "{HUSH}"}}',
    "JSON in a string": json.dumps(json.dumps({"user": "me", "api_key": HUSH, "more": 1})),
    "header": f"Authorization: Bearer {HUSH}",
    "headers": f"{{'Authorization': 'Basic {HUSH}'}}",
    "environment": f"AWS_SECRET_ACCESS_KEY={HUSH} AWS_SESSION_TOKEN='{HUSH}'",
    "arguments": f"Row(user='me', password='{HUSH}')",
    "cut short": f"refused: password='{HUSH} and what follows",
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{HUSH}\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_secrets_are_masked(text: str) -> None:
    assert HUSH not in without_secrets(text)
    assert MASK in without_secrets(text)
    assert without_secrets(without_secrets(text)) == without_secrets(text)
    assert str(HeadraceError(text)) == without_secrets(text)
    assert HUSH not in repr(ConfigurationError(text))


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net:443/a",
        "hdfs://namenode:8020/users/me@here",
        "http://[::1]:8081/a@b",
        "kafka://a:9092,b:9092",
        "expected 'password', not 'token': give both",
        "WHERE token = id AND passwords == 3",
        "'sasl.password' = '${env:KAFKA_PASSWORD}'",
        "password=${file:/etc/kafka.properties:password}",
        "the file is at a.py:3, key=5, tokens: 7",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_what_is_around_a_secret_stays() -> None:
    assert without_secrets(SECRETS["several hosts"]) == "mongodb://******@h1:27017,h2:27017/db"
    assert without_secrets(SECRETS["options of SQL"]) == (
        "WITH ('connector' = 'kafka', 'properties.sasl.password' = '******', 'topic' = 't')"
    )
    inner = json.loads(json.loads(without_secrets(SECRETS["JSON in a string"])))
    assert inner == {"user": "me", "api_key": MASK, "more": 1}


@given(st.text(st.sampled_from("ab:/@='\"\\ \n;&?"), max_size=40), st.sampled_from(["password=", "://", "'token': "]))
def test_masking_twice_is_masking_once(text: str, sign: str) -> None:
    once = without_secrets(f"{text}{sign}{text}")
    assert without_secrets(once) == once


def test_long_texts_are_masked_in_parts() -> None:
    lines = [f"{number} password={HUSH}\n" for number in range(30_000)]
    assert log_without_secrets("".join(lines)) == "".join(lines).replace(HUSH, MASK)
    assert log_without_secrets("") == ""


def test_errors_that_are_other_errors_too_are_masked() -> None:
    for kind in (CheckpointStorageError, UnknownTopicError):
        assert str(kind(f"no such s3://me:{HUSH}@b")) == "no such s3://******@b"


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_logs_are_masked(formatter: logging.Formatter) -> None:
    try:
        raise ValueError(SECRETS["address"])
    except ValueError as error:
        failure = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("a", logging.INFO, "a.py", 1, "at %s", (SECRETS["odd password"],), failure)
    record.place = SECRETS["cut short"]
    line = formatter.format(record)
    assert HUSH not in line
    assert "postgresql://******@host:5432/db" in line
    assert isinstance(formatter, TextFormatter) or json.loads(line)["place"] == "refused: password='******'"


def test_configurations_show_no_secrets() -> None:
    given_ = Configuration.from_dict(
        {"my.password": HUSH, "my.url": SECRETS["address"], "s3.access-key": HUSH, "parallelism.default": "2"}
    )
    assert HUSH not in f"{given_} {given_!r}"
    assert masked(given_.to_dict())["parallelism.default"] == "2"
    with pytest.raises(ConfigurationError) as refused:
        Configuration().set("my.password", object())
    assert "object" not in str(refused.value)
