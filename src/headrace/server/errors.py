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
