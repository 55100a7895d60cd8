"""The options of what serves jobs: the REST API of a job, dispatchers and the history server."""

from typing import Final

from headrace.common.config_options import (
    ConfigOption,
    boolean,
    integer,
    job_id,
    location,
    memory_size,
    port_range,
    positive_duration,
)

REST_PORT: Final = ConfigOption[int | None](
    "rest.port",
    integer(0, 65535),
    None,
    "The port at which the REST API of the program's jobs is served, 0 for any free one. When neither this nor "
    "rest.bind-port is set, there is none.",
)
REST_BIND_PORT: Final = ConfigOption[tuple[int, ...] | None](
    "rest.bind-port",
    port_range,
    None,
    "Ports of which the first free one is taken in place of that: `8081`, `8081-8180`, `8081,9000-9010`.",
)
REST_BIND_ADDRESS: Final = ConfigOption(
    "rest.bind-address",
    str,
    "localhost",
    "The address of this machine at which the REST API is served, `0.0.0.0` for all. Off this machine nobody is let in "
    "without a token (rest.authentication.token-file) or a certificate (security.ssl.rest.authentication-enabled).",
)
REST_ADDRESS: Final = ConfigOption[str | None](
    "rest.address",
    str,
    None,
    "The name at which clients reach that address; it is shown, and requests may be to it. When not set, the address "
    "itself, or the name of this machine for all of its addresses.",
)
REST_TOKEN_FILE: Final = ConfigOption[str | None](
    "rest.authentication.token-file",
    location,
    None,
    "A file with the token that every request needs, as `Authorization: Bearer ...`; browsers ask for it as a "
    "password. Nobody but its owner may read the file.",
)
REST_STORE_DURATION: Final = ConfigOption(
    "rest.async.store-duration",
    positive_duration,
    300_000,
    "For how long the outcome of a savepoint or the like can be asked for.",
)
REST_SSL: Final = ConfigOption(
    "security.ssl.rest.enabled",
    boolean,
    False,
    "Whether the REST API is served over TLS, with the certificate in security.ssl.rest.keystore.",
    ("security.ssl.enabled",),
)
REST_SSL_AUTHENTICATION: Final = ConfigOption(
    "security.ssl.rest.authentication-enabled",
    boolean,
    False,
    "Whether clients need a certificate that one in security.ssl.rest.truststore has signed.",
)
REST_KEYSTORE: Final = ConfigOption[str | None](
    "security.ssl.rest.keystore",
    location,
    None,
    "A file in PEM with the private key and the chain of certificates; keystores of Java are refused with the command "
    "that converts them.",
    ("security.ssl.keystore",),
)
REST_KEY_PASSWORD: Final = ConfigOption[str | None](
    "security.ssl.rest.key-password",
    str,
    None,
    "What the private key is encrypted with, if it is.",
    ("security.ssl.key-password",),
)
REST_TRUSTSTORE: Final = ConfigOption[str | None](
    "security.ssl.rest.truststore",
    location,
    None,
    "A file in PEM with the certificates of those who sign clients' certificates, and, for commands, servers'.",
    ("security.ssl.truststore",),
)
ARCHIVE_DIR: Final = ConfigOption[str | None](
    "jobmanager.archive.fs.dir",
    location,
    None,
    "Where the last status of a job is kept when it has ended, so that `headrace history-server` shows it; a path or a "
    "URI.",
)
HISTORY_DIRS: Final = ConfigOption[str | None](
    "historyserver.archive.fs.dir",
    str,
    None,
    "Where `headrace history-server` finds such archives; several places have commas between them. "
    "jobmanager.archive.fs.dir when not set.",
)
HISTORY_PORT: Final = ConfigOption(
    "historyserver.web.port",
    integer(0, 65535),
    8082,
    "The port of `headrace history-server`, 0 for any free one.",
)
HISTORY_ADDRESS: Final = ConfigOption[str | None](
    "historyserver.web.address",
    str,
    None,
    "The address of this machine at which `headrace history-server` listens; rest.bind-address when not set.",
)
HISTORY_REFRESH: Final = ConfigOption(
    "historyserver.archive.fs.refresh-interval",
    positive_duration,
    10_000,
    "How often `headrace history-server` looks for new archives.",
)
HISTORY_RETAINED: Final = ConfigOption(
    "historyserver.archive.retained-jobs",
    integer(-1, 2**31 - 1),
    -1,
    "The number of the latest archives that `headrace history-server` keeps in each place; older ones are removed. -1 "
    "keeps all.",
)
FIXED_JOB_ID: Final = ConfigOption[str | None](
    "$internal.pipeline.job-id",
    job_id,
    None,
    "The id of a job, 32 hexadecimal digits, where its checkpoint directory has none yet. A dispatcher sets it, for "
    "the one job that a program has there.",
)
CLUSTER_DIR: Final = ConfigOption[str | None](
    "high-availability.storageDir",
    location,
    None,
    "Where dispatchers (`headrace cluster`) keep programs, jobs, logs and archives; a path or a URI. All dispatchers "
    "of one cluster have the same.",
)
CLUSTER_LEASE: Final = ConfigOption(
    "headrace.cluster.lease-duration",
    positive_duration,
    10_000,
    "When a dispatcher has given no sign of life for this long, another one of its cluster takes over.",
)
CLUSTER_STOP_TIMEOUT: Final = ConfigOption(
    "headrace.cluster.stop-timeout",
    positive_duration,
    60_000,
    "How long the jobs of a dispatcher that is stopped have to complete their epochs, before they are killed.",
)
CLUSTER_CATALOG_STORE: Final = ConfigOption[str | None](
    "headrace.cluster.catalog-store",
    location,
    None,
    "A catalog store of sessions (`table.catalog-store.file.path`), in whose catalogs a dispatcher looks for "
    "materialized tables: full refreshes that no program makes, it makes when they are due.",
)
LOG_FILES: Final = ConfigOption(
    "env.log.max",
    integer(0, 1_000),
    10,
    "The number of old files that are kept of a log of a dispatcher, or of the process of one of its jobs.",
)
LOG_FILE_SIZE: Final = ConfigOption(
    "headrace.log.max-file-size",
    memory_size,
    100 << 20,
    "The size from which on a file of such a log is an old one, and the next is begun.",
)
JOBSTORE_CAPACITY: Final = ConfigOption(
    "jobstore.max-capacity",
    integer(1, 2**31 - 1),
    100,
    "The number of ended jobs of which a dispatcher keeps programs and logs, and which it shows. Older ones are left "
    "to `headrace history-server`.",
)
UPLOAD_LIMIT: Final = ConfigOption(
    "rest.server.max-content-length",
    integer(1, 2**40),
    104_857_600,
    "The largest program that can be uploaded to a dispatcher, in bytes.",
)
WEB_SUBMIT: Final = ConfigOption(
    "web.submit.enable",
    boolean,
    True,
    "Whether a dispatcher accepts programs by its REST API.",
)
REFRESH_INTERVAL: Final = ConfigOption(
    "web.refresh-interval",
    positive_duration,
    3_000,
    "How often pages that show a job ask for what is new.",
)
