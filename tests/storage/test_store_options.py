"""How stores are reached: keys of the configuration, profiles of ``~/.aws``, and what is told when it does not work."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.cli.checkpoints import run_checkpoints
from headrace.common import Configuration
from headrace.common.errors import CheckpointStorageError, ConfigurationError
from headrace.storage import object_store
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage
from headrace.storage.object_store import options_for
from headrace.storage.settings import check_credentials, with_profile
from tests.storage.s3_server import S3Server, answered, refused

ROLE = "arn:aws:iam::123456789012:role/job"
CONFIG = f"""
[default]
region = eu-west-1
[profile work]
region = eu-central-1
endpoint_url = https://work.example.com
[profile  spaced ]
region = us-west-2
[profile services]
services = dev
endpoint_url = https://other.example.com
[services dev]
dynamodb =
  endpoint_url = https://dynamo.example.com
s3 =
  max_concurrent_requests = 3
  endpoint_url = https://s3.example.com
[profile sso]
sso_session = company
region = eu-north-1
[profile assumed]
role_arn = {ROLE}
source_profile = work
[profile pod]
role_arn = {ROLE}
web_identity_token_file = /var/run/token
[profile tool]
credential_process = /bin/true
"""
CREDENTIALS = """
[default]
aws_access_key_id = default-id
aws_secret_access_key = default-secret
[work]
aws_access_key_id = work-id
aws_secret_access_key = work-secret
aws_session_token = work-token
"""
DEFAULT = {"access_key_id": "default-id", "secret_access_key": "default-secret", "region": "eu-west-1"}
WORK = {
    "access_key_id": "work-id",
    "secret_access_key": "work-secret",
    "session_token": "work-token",
    "region": "eu-central-1",
    "endpoint": "https://work.example.com",
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Where the two files are."""
    (tmp_path / "config").write_text(CONFIG)
    (tmp_path / "credentials").write_text(CREDENTIALS)
    return {"AWS_CONFIG_FILE": f"{tmp_path}/config", "AWS_SHARED_CREDENTIALS_FILE": f"{tmp_path}/credentials"}


@pytest.mark.parametrize(
    ("environment", "options", "found"),
    [
        ({}, {}, DEFAULT),
        ({"AWS_PROFILE": "work"}, {}, WORK),
        ({"AWS_DEFAULT_PROFILE": "work"}, {}, WORK),
        ({"AWS_PROFILE": "sso"}, {"profile": "work"}, WORK),
        ({"AWS_ACCESS_KEY_ID": "other"}, {"profile": "work"}, WORK),
        ({"AWS_PROFILE": "spaced"}, {}, {"region": "us-west-2"}),
        ({"AWS_PROFILE": "services"}, {}, {"endpoint": "https://s3.example.com"}),
        ({"AWS_PROFILE": "pod"}, {}, {"role_arn": ROLE, "web_identity_token_file": "/var/run/token"}),
        ({"AWS_ACCESS_KEY_ID": "other"}, {}, {"region": "eu-west-1"}),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_REGION": "eu-north-1"}, {}, {}),
        ({"AWS_ENDPOINT_URL_S3": "http://x", "AWS_PROFILE": "work"}, {}, {k: WORK[k] for k in WORK if k != "endpoint"}),
        ({"AWS_PROFILE": "sso"}, {"access_key_id": "mine"}, {"access_key_id": "mine", "region": "eu-north-1"}),
        ({}, {"skip_signature": "true", "region": "a"}, {"skip_signature": "true", "region": "a"}),
    ],
)
def test_what_a_profile_says(
    files: dict[str, str], environment: dict[str, str], options: dict[str, str], found: dict[str, str]
) -> None:
    assert with_profile(options, files | environment) == found


def test_no_files_say_nothing(tmp_path: Path) -> None:
    nowhere = {"AWS_CONFIG_FILE": f"{tmp_path}/a", "AWS_SHARED_CREDENTIALS_FILE": f"{tmp_path}/b"}
    assert with_profile({"region": "x"}, nowhere) == {"region": "x"}


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        ("sso", r"but sso_session, .*aws configure export-credentials --profile sso --format env"),
        ("assumed", r"but source_profile, "),
        ("tool", r"but credential_process, "),
        ("missing", r"there is no profile 'missing' in ~/\.aws/config"),
    ],
)
def test_profiles_that_cannot_be_used(files: dict[str, str], profile: str, told: str) -> None:
    with pytest.raises(CheckpointStorageError, match=told):
        with_profile({"profile": profile}, files)


def test_a_file_that_is_none_does_not_show_what_is_in_it(files: dict[str, str]) -> None:
    Path(files["AWS_SHARED_CREDENTIALS_FILE"]).write_text("aws_secret_access_key = hush\n")
    with pytest.raises(CheckpointStorageError, match="credentials cannot be read") as raised:
        with_profile({}, files)
    assert "hush" not in str(raised.value)


def test_a_profile_reaches_a_store_also_from_tasks(
    s3: S3Server, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    for name, value in (files | {"AWS_PROFILE": "work"}).items():
        monkeypatch.setenv(name, value)
    folder = open_storage(f"{s3.new_bucket()}/job", options={"aws_endpoint": s3.options()["endpoint"]})
    monkeypatch.delenv("AWS_PROFILE")
    folder.write("a", [b"content"])
    assert folder.read("a") == b"content"
    assert "work-secret" not in repr(folder)


@pytest.fixture
def metadata() -> Iterator[str]:
    """A service that gives machines their role."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"token")

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


NO_MATCH = "http://127.0.0.1:1"
ACCOUNT = "abfss://c@account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("bucket", "options", "environment"),
    [
        ("s3://bucket", {"access_key_id": "x"}, {}),
        ("s3://bucket", {}, {"AWS_ACCESS_KEY_ID": "x"}),
        ("gs://bucket", {"google_service_account": "/key.json"}, {}),
        ("gs://bucket", {"skip_signature": "true"}, {}),
        ("gs://bucket", {}, {"GOOGLE_APPLICATION_CREDENTIALS": "/key.json"}),
        (ACCOUNT, {"account_key": "x"}, {}),
        (ACCOUNT, {"azure_storage_sas_token": "x"}, {}),
        ("az://c", {"azure_account_name": "a"}, {"AZURE_STORAGE_ACCOUNT_KEY": "x"}),
        ("az://c", {}, {"AZURE_STORAGE_ACCOUNT_NAME": "a", "IDENTITY_ENDPOINT": "http://x"}),
        ("az://c", {"use_emulator": "true"}, {}),
        ("memory:///x", {}, {}),
    ],
)
def test_credentials_are_there(bucket: str, options: dict[str, str], environment: dict[str, str]) -> None:
    check_credentials(bucket, options, environment, NO_MATCH)


def test_what_googles_tools_leave_are_credentials(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.touch()
    check_credentials("gs://bucket", {}, {"HOME": f"{tmp_path}"}, NO_MATCH)


@pytest.mark.parametrize(
    ("bucket", "told"),
    [
        ("s3://bucket", r"headrace\.storage\.access-key-id .*AWS_ACCESS_KEY_ID .*AWS_PROFILE"),
        ("gs://bucket", r"headrace\.storage\.google-service-account .*GOOGLE_APPLICATION_CREDENTIALS, .*gcloud auth"),
        (ACCOUNT, r"headrace\.storage\.azure-account-key, .*AZURE_STORAGE_ACCOUNT_KEY .*azure-use-azure-cli"),
    ],
)
def test_credentials_are_missing(metadata: str, bucket: str, told: str, tmp_path: Path) -> None:
    environment = {"HOME": f"{tmp_path}"}
    check_credentials(bucket, {}, environment, metadata)  # the machine has a role
    message = rf"{bucket}: there are no credentials\. They are looked for in {told}.*refused.*skip-signature"
    with pytest.raises(CheckpointStorageError, match=message):
        check_credentials(bucket, {}, environment, NO_MATCH)


@pytest.mark.parametrize("bucket", ["az://container", "abfss://container"])
def test_a_container_is_one_of_an_account(bucket: str) -> None:
    with pytest.raises(CheckpointStorageError, match=r"nothing says which: set headrace\.storage\.azure-account-name"):
        check_credentials(bucket, {"account_key": "x"}, {}, NO_MATCH)


def test_time_alone_says_when_a_request_is_given_up(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(object_store._RETRIES, "backoff", {"max_backoff": timedelta(milliseconds=100)})
    folder = open_storage(f"{s3.new_bucket()}/job", options=s3.options() | {"retry_timeout": "61 s"})
    folder.write("a", [b"content"])
    with s3.failing(refused("503 Slow Down"), "GET", "/job/a", times=25) as struck:
        assert folder.read("a") == b"content"
    assert len(struck) == 25


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"headrace.storage.Read-Timeout": "1 s"}, {"read_timeout": "1 s"}),
        (
            {"s3.access-key": "a", "s3.secret-key": "b", "s3.endpoint": "http://c", "s3.path.style.access": "true"},
            {
                "aws_access_key_id": "a",
                "aws_secret_access_key": "b",
                "aws_endpoint": "http://c",
                "aws_virtual_hosted_style_request": "false",
            },
        ),
        (
            {"spark.hadoop.fs.s3a.endpoint": "minio:9000", "spark.hadoop.fs.s3a.connection.ssl.enabled": "false"},
            {"aws_endpoint": "http://minio:9000"},
        ),
        ({"spark.hadoop.fs.s3a.endpoint": "minio:9000"}, {"aws_endpoint": "https://minio:9000"}),
        ({"fs.s3a.session.token": "a", "spark.hadoop.fs.s3a.session.token": "b"}, {"aws_session_token": "a"}),
        ({"headrace.storage.endpoint-url": "http://a", "s3.endpoint": "http://b"}, {"endpoint_url": "http://a"}),
        ({"headrace.storage.aws-region": "a", "s3.region": "b"}, {"aws_region": "a"}),
        ({"spark.hadoop.fs.s3a.impl": "x", "other": "y"}, {}),
    ],
)
def test_keys_of_others_are_understood(values: dict[str, str], found: dict[str, str]) -> None:
    configuration = Configuration.from_dict(values)
    configuration.validate()
    assert configuration.storage_options() == found


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("s3.endpoint_url", r"s3\.endpoint_url is not an option of headrace: did you mean s3\.endpoint"),
        ("s3.acces-key", r"did you mean s3\.access-key"),
        ("fs.s3a.aws.credentials.provider", r"fs\.s3a\.aws\.credentials\.provider is not an option"),
        ("s3a.xyz", "known are s3a.access.key"),
    ],
)
def test_keys_of_which_nothing_would_come_are_refused(key: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Configuration.from_dict({key: "x"}).validate()


@pytest.mark.parametrize("key", ["headrace.storage.token", "s3.secret-key", "spark.hadoop.fs.s3a.secret.key"])
def test_secrets_are_not_shown(key: str) -> None:
    configuration = Configuration.from_dict({key: "hush", "mine": "value"})
    assert "hush" not in repr(configuration)
    assert configuration.job_parameters() == {"mine": "value"}


def test_an_option_is_for_the_stores_that_have_it() -> None:
    options = {"aws_region": "a", "google_service_account": "b", "azure_account_name": "c", "timeout": "d"}
    assert options_for("s3://bucket", options) == {"region": "a", "timeout": "d"}
    assert options_for("gs://bucket", options) == {"google_service_account": "b", "timeout": "d"}
    assert options_for("abfss://c@a.dfs.core.windows.net", options) == {"azure_account_name": "c", "timeout": "d"}


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("acces_key", "headrace.storage.access-key-id"),
        ("endpiont", "headrace.storage.endpoint"),
        ("x", "is not known to the client of the store$"),
    ],
)
def test_an_option_that_no_client_knows(s3: S3Server, key: str, told: str) -> None:
    with pytest.raises(CheckpointStorageError, match=told):
        open_storage("s3://bucket/job", options=s3.options() | {key: "value"})


@pytest.fixture
def folder(s3: S3Server) -> Folder:
    return open_storage(f"{s3.new_bucket()}/job", options=s3.options())


def test_what_the_store_says_is_told(s3: S3Server, folder: Folder) -> None:
    body = "<?xml version='1.0'?>\n<Error><Code>AccessDenied</Code>\n<Message>Not yours &amp; never</Message></Error>"
    with (
        s3.failing(answered("403 Forbidden", body), "GET", "/job/a"),
        pytest.raises(PermissionError, match=r"403 Forbidden: AccessDenied: Not yours"),
    ):
        folder.read("a")
    with s3.failing(answered("400 Bad Request", "no XML"), "GET", "/job/a"), pytest.raises(OSError, match="no XML"):
        folder.read("a")


def test_a_bucket_that_is_missing_is_told(s3: S3Server) -> None:
    missing = open_storage("s3://there-is-none/job", options=s3.options())
    for use in (missing.names, lambda: missing.read("a"), lambda: missing.create("a", b"")):
        with pytest.raises(CheckpointStorageError, match=r"s3://there-is-none/job.*no such bucket.*NoSuchBucket"):
            use()
    with pytest.raises(CheckpointStorageError, match="no such bucket"):
        run_checkpoints("s3://there-is-none/job", s3.options())
