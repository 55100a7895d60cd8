"""A dispatcher with its server, as one process has it."""

import logging
from typing import Final

from headrace.common import server_options as options
from headrace.common.configuration import Configuration
from headrace.common.logs import KeptLog
from headrace.server.cluster.dispatcher import Dispatcher
from headrace.server.server import RestServer, ServedContent
from headrace.server.settings import RestSettings

_ROOT: Final = "headrace"


class ClusterService:
    """Serves the jobs of a cluster.

    Args:
        configuration: that of the cluster.

    Raises:
        ConfigurationError: when it cannot be served so, or its storage is not given.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._log = KeptLog()
        logging.getLogger(_ROOT).addHandler(self._log)
        self._server = RestServer(RestSettings.of(configuration), self._content)

    def _content(self, address: str) -> ServedContent:
        self.dispatcher = Dispatcher(self._configuration, address)
        return ServedContent(
            self.dispatcher,
            self.dispatcher,
            most_upload_bytes=self._configuration.get(options.UPLOAD_LIMIT),
            log=self._log,
        )

    @property
    def address(self) -> str:
        """The address that users open."""
        return self._server.address

    def start(self) -> None:
        """Begin to serve, and to lead or stand by."""
        self.dispatcher.start()
        self._server.start()

    def stop(self) -> None:
        """Stop all jobs, and serve no more."""
        self.dispatcher.stop()
        self._server.close()
        logging.getLogger(_ROOT).removeHandler(self._log)
