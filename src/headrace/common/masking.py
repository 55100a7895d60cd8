"""Secrets in what others are shown: errors, logs, answers of the REST API, pages, archives, lineage.

Values are masked by the names of their keys, as in Flink; in running text by the forms in which secrets come: the
password of an address, ``password=…`` in parameters of URLs, connection strings and logins of Kafka, keys and values in
quotes as SQL and JSON write them, headers that log in, private keys.
"""

import re
from dataclasses import dataclass
from typing import Final

MASK: Final = "******"

_SENSITIVE: Final = (
    "password",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
    "jaas.config",
    "http-headers",
    # Beside Flink's, what clients call it that Flink does not have
    "passwd",
    "access-key",
    "access_key",
    "account-key",
    "account_key",
    "api_key",
    "private-key",
    "private_key",
    "ssl.key.pem",
    "ssl.keystore.key",
    "auth_user_info",
)
"""Parts of keys whose values are secrets."""


def is_sensitive(key: str) -> bool:
    """Return whether the name of a key says that its value is a secret."""
    name = key.lower()
    return any(part in name for part in _SENSITIVE)


def masked(key: str, value: str) -> str:
    """The value of an option as others are shown it."""
    return MASK if is_sensitive(key) and not value.startswith("${") else without_secrets(value)


_PARAMETERS: Final = (
    "password",
    "passwd",
    "pwd",
    "secret",
    r"(?:secret|access|account|api|private)[-_.]?key",
    "token",
    r"jaas\.config",
    r"user[-_.]?info",
    "x-amz-(?:signature|credential)",
    "(?<=[?&;])sig",
)
"""The ends of the names of parameters whose values are secrets."""

_REFERENCE: Final = r"\$\{"
"""``${env:NAME}`` says where a secret is, and is none."""


def _in_quotes(group: int) -> str:
    """A text in quotes, of which the first is a group of this number; one that is cut short goes to the end."""
    quote = rf"\{group}"
    return rf"""(\\?["'])(?!{_REFERENCE})(?:{quote}{quote}|(?!{quote})(?:\\.|.))*+(?:{quote}|\Z)"""


@dataclass(frozen=True, slots=True)
class _Form:
    """A form in which secrets come.

    Attributes:
        signs: texts in small letters of which one is there where it is.
        pattern: what is replaced.
        instead: by what.
    """

    signs: tuple[str, ...]
    pattern: re.Pattern[str]
    instead: str


def _form(signs: tuple[str, ...], pattern: str, instead: str) -> _Form:
    return _Form(signs, re.compile(pattern, re.IGNORECASE | re.DOTALL), instead)


_WORDS: Final = ("password", "passwd", "pwd", "secret", "key", "token", "config", "info", "x-amz", "sig=")
"""One of them is in every name of a parameter that is sensitive."""

_FORMS: Final = (
    # What follows the colon behind a name, and is no port, is a password, whatever is in it
    _form(("://",), r"""(?<=://)[^\s/@:\['"?#]{0,256}:(?!\d+(?:[/,?#\s'"]|\Z))[^\s'"]{0,512}@""", f"{MASK}@"),
    _form(("jdbc:oracle",), r"""(?<=jdbc:oracle:thin:)[^\s/@'"]{0,256}/[^\s'"@]{0,256}(?=@)""", MASK),
    _form(_WORDS, rf"((?:{'|'.join(_PARAMETERS)})=){_in_quotes(2)}", rf"\1\2{MASK}\2"),
    _form(
        _WORDS,
        rf"""((?:{"|".join(_PARAMETERS)})=)(?![="']|\\["']|{_REFERENCE})[^\s,;&|)}}\]"'<>]+""",
        rf"\1{MASK}",
    ),
    _form(
        _SENSITIVE,
        rf"""((?:{"|".join(map(re.escape, _SENSITIVE))})[\w.-]{{0,64}}\\?["']\s{{0,8}}[:=]\s{{0,8}}){_in_quotes(2)}""",
        rf"\1\2{MASK}\2",
    ),
    _form(
        ("authorization",),
        r"""(authorization\\?["']?\s{0,8}[:=]\s{0,8}\\?["']?(?:bearer|basic)\s{1,8})[^\s'"\\]+""",
        rf"\1{MASK}",
    ),
    _form(
        ("private key-----",),
        r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|\Z)",
        MASK,
    ),
)


def without_secrets(text: str) -> str:
    """A text without the secrets in it that can be recognized by their form."""
    if "=" not in text and ":" not in text and "-----" not in text:
        return text
    lower = text.lower()
    for form in _FORMS:
        if any(sign in lower for sign in form.signs):
            text = form.pattern.sub(form.instead, text)
    return text


_BLOCK: Final = 1 << 18


def log_without_secrets(text: str) -> str:
    """The same for a text of many megabytes, line by line, so that other threads have their turn meanwhile."""
    found, start = [], 0
    while start < len(text):
        stop = text.find("\n", start + _BLOCK) + 1 or len(text)
        found.append(without_secrets(text[start:stop]))
        start = stop
    return "".join(found)
