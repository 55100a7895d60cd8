"""The settings of the server by the configuration: address, access, and TLS."""

import ipaddress
import socket
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.common import server_options as options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError

_KEYSTORES: Final = (".jks", ".p12", ".pfx", ".keystore", ".truststore")

_FEWEST_CHARACTERS: Final = 16
"""A shorter token could be found by trying."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The files of a server that talks TLS.

    Attributes:
        keystore: the private key and its certificates.
        key_password: what the key is encrypted with; None where it is not.
        truststore: the certificates that sign those of clients; None where they need none.
    """

    keystore: str
    key_password: str | None
    truststore: str | None

    def context(self) -> ssl.SSLContext:
        """The settings as Python's TLS has them.

        Raises:
            ConfigurationError: when a file is missing, or not what it should be.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.keystore, password=lambda: self.key_password or "")
            if self.truststore is not None:
                context.load_verify_locations(self.truststore)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            files = self.keystore if self.truststore is None else f"{self.keystore} or {self.truststore}"
            raise ConfigurationError(
                f"{options.REST_KEYSTORE.key}, {options.REST_TRUSTSTORE.key}: {files} cannot be used: {error}. Both "
                "are files in PEM; the first has the private key and the chain of certificates"
            ) from None
        return context


@dataclass(frozen=True, slots=True)
class RestSettings:
    """The address at which jobs are served, and the rules of access.

    Attributes:
        bind_address: the address of this machine.
        ports: the ports to try, 0 for any.
        address: the name by which clients reach it; None for the bound address.
        token: what every request has to bring; None for nothing.
        tls: the certificates; None for plain HTTP.
        store_seconds: for how long the outcome of an operation is kept.
        refresh_millis: how often dashboards ask.
        token_file: where the token is; empty for nowhere.
        is_noted: whether commands on this machine find the server without its address.
    """

    bind_address: str
    ports: tuple[int, ...]
    address: str | None = None
    token: str | None = None
    tls: TlsSettings | None = None
    store_seconds: float = 300.0
    refresh_millis: int = 3_000
    token_file: str = ""
    is_noted: bool = True

    @staticmethod
    def of(configuration: Configuration) -> "RestSettings":
        """The settings of a configuration.

        Raises:
            ConfigurationError: when other machines would have access without authentication, or a file cannot be used.
        """
        port, ports = configuration.get(options.REST_PORT), configuration.get(options.REST_BIND_PORT)
        token_file = configuration.get(options.REST_TOKEN_FILE)
        settings = RestSettings(
            bind_address=configuration.get(options.REST_BIND_ADDRESS).strip(),
            ports=ports or (port or 0,),
            address=configuration.get(options.REST_ADDRESS),
            token=None if token_file is None else _token(Path(token_file)),
            tls=_tls(configuration),
            store_seconds=configuration.get(options.REST_STORE_DURATION) / 1000,
            refresh_millis=configuration.get(options.REFRESH_INTERVAL),
            token_file="" if token_file is None else str(Path(token_file).absolute()),
            is_noted=configuration.get(options.FIXED_JOB_ID) is None,  # else a dispatcher serves the job
        )
        settings.check()
        return settings

    def check(self) -> None:
        """Refuse access from other machines without authentication.

        Raises:
            ConfigurationError: when anybody would.
        """
        knows_clients = self.token is not None or (self.tls is not None and self.tls.truststore is not None)
        if not (self.is_loopback or knows_clients):
            raise ConfigurationError(
                f"{options.REST_BIND_ADDRESS.key} = {self.bind_address!r}: any client that reaches it could stop the "
                f"job. Set {options.REST_TOKEN_FILE.key} to a file with a token (python -c 'import secrets; "
                f"print(secrets.token_urlsafe())' makes one), or {options.REST_SSL.key} and "
                f"{options.REST_SSL_AUTHENTICATION.key} with certificates; or leave the address out, for this machine "
                "alone"
            )

    @property
    def is_loopback(self) -> bool:
        """True if only this machine reaches it."""
        return is_loopback(self.bind_address)

    @property
    def host(self) -> str:
        """The name by which clients reach it."""
        if self.address is not None:
            return self.address
        return socket.gethostname() if self.bind_address in _ALL_ADDRESSES else self.bind_address

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return "http" if self.tls is None else "https"

    def url(self, port: int) -> str:
        """The address that users open."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{port}"


_ALL_ADDRESSES: Final = ("0.0.0.0", "::", "")


def is_loopback(host: str) -> bool:
    """Return whether a host is a name of this machine that reaches no other one."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _token(file: Path) -> str:
    """The token in a file that only its owner reads.

    Raises:
        ConfigurationError: when others read it, or there is no token in it that cannot be guessed.
    """
    key = options.REST_TOKEN_FILE.key
    try:
        mode, token = file.stat().st_mode, file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{key}: {file} cannot be read: {error}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(f"{key}: others can read {file}: chmod 600 {file}")
    if len(token) < _FEWEST_CHARACTERS or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"{key}: {file} has to hold one word of {_FEWEST_CHARACTERS} characters or more, such as "
            "python -c 'import secrets; print(secrets.token_urlsafe())' prints"
        )
    return token


def _tls(configuration: Configuration) -> TlsSettings | None:
    needs_certificates = configuration.get(options.REST_SSL_AUTHENTICATION)
    if not configuration.get(options.REST_SSL):
        if needs_certificates:
            raise ConfigurationError(
                f"{options.REST_SSL_AUTHENTICATION.key} is true and {options.REST_SSL.key} is not: clients show "
                "certificates only over TLS"
            )
        return None
    for option in (options.REST_KEYSTORE, options.REST_TRUSTSTORE):
        _refuse_keystore(option.key, configuration.get(option))
    keystore, truststore = (
        configuration.get(options.REST_KEYSTORE),
        configuration.get(options.REST_TRUSTSTORE),
    )
    if keystore is None:
        raise ConfigurationError(f"{options.REST_SSL.key} is true and {options.REST_KEYSTORE.key} names no file")
    if needs_certificates and truststore is None:
        raise ConfigurationError(
            f"{options.REST_SSL_AUTHENTICATION.key} is true and {options.REST_TRUSTSTORE.key} names no file"
        )
    tls = TlsSettings(
        keystore, configuration.get(options.REST_KEY_PASSWORD), truststore if needs_certificates else None
    )
    tls.context()
    return tls


def _refuse_keystore(key: str, file: str | None) -> None:
    if file is not None and file.lower().endswith(_KEYSTORES):
        raise ConfigurationError(
            f"{key}: {file} is a keystore of Java; give a file in PEM: openssl pkcs12 -in store.p12 -out store.pem "
            "(keytool -importkeystore -srckeystore store.jks -destkeystore store.p12 makes a .p12 of a .jks)"
        )
