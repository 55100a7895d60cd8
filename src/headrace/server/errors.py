"""What a request is refused with, in the shape that Flink's clients read."""

from http import HTTPStatus

from headrace.common.errors import HeadraceError


class RestError(HeadraceError):
    """A request that cannot be answered as it was meant.

    Args:
        status: the status of the answer.
        message: what was wrong, and what to do.
    """

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def bad_request(message: str) -> RestError:
    """The request itself is wrong."""
    return RestError(HTTPStatus.BAD_REQUEST, message)


def not_found(message: str) -> RestError:
    """There is nothing of that name."""
    return RestError(HTTPStatus.NOT_FOUND, message)


def conflict(message: str) -> RestError:
    """The job cannot do that now."""
    return RestError(HTTPStatus.CONFLICT, message)


def check_id(parameter: str, value: str) -> None:
    """See that something has the form of an id of Flink.

    Raises:
        RestError: when it has not.
    """
    if len(value) != 32 or not set(value) <= set("0123456789abcdef"):
        raise bad_request(f"{parameter}: expected 32 hexadecimal digits in lower case, not {value!r}")
