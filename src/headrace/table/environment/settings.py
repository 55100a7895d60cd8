"""``EnvironmentSettings`` and ``TableConfig``: the configuration of table environments."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.common.configuration import Configuration
from headrace.common.options import RUNTIME_MODE, RuntimeExecutionMode
from headrace.table.options import BUILT_IN_CATALOG, BUILT_IN_DATABASE, LOCAL_TIME_ZONE, check_key, check_value


@dataclass(frozen=True)
class EnvironmentSettings:
    """The settings with which a table environment is created.

    Attributes:
        is_streaming: whether statements run in streaming mode, and not in batch mode.
        configuration: the initial configuration.
        catalog: the name of the first catalog; by default that of the configuration.
        database: the name of the first database; by default that of the configuration.

    Examples:
        >>> from headrace.table import EnvironmentSettings
        >>> EnvironmentSettings.in_batch_mode().is_streaming_mode()
        False
    """

    is_streaming: bool = True
    configuration: Configuration = field(default_factory=Configuration)
    catalog: str | None = None
    database: str | None = None

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Settings for streaming mode: results are updated continuously."""
        return EnvironmentSettings()

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Settings for batch mode: all tables are bounded, and each statement has a final result."""
        return EnvironmentSettings(is_streaming=False)

    @staticmethod
    def new_instance() -> SettingsBuilder:
        """A builder of settings."""
        return SettingsBuilder()

    def is_streaming_mode(self) -> bool:
        """Return whether statements run in streaming mode."""
        return self.is_streaming

    def get_built_in_catalog_name(self) -> str:
        """The name of the first catalog."""
        return self.catalog or self.configuration.get(BUILT_IN_CATALOG)

    def get_built_in_database_name(self) -> str:
        """The name of the first database."""
        return self.database or self.configuration.get(BUILT_IN_DATABASE)

    def get_configuration(self) -> Configuration:
        """The initial configuration."""
        return self.configuration


class SettingsBuilder:
    """Builds :class:`EnvironmentSettings`, as PyFlink's builder does.

    Examples:
        >>> from headrace.table import EnvironmentSettings
        >>> EnvironmentSettings.new_instance().in_batch_mode().build().is_streaming_mode()
        False
    """

    def __init__(self) -> None:
        self._is_streaming = True
        self._configuration = Configuration()
        self._catalog: str | None = None
        self._database: str | None = None

    def in_streaming_mode(self) -> SettingsBuilder:
        """Select streaming mode."""
        self._is_streaming = True
        return self

    def in_batch_mode(self) -> SettingsBuilder:
        """Select batch mode."""
        self._is_streaming = False
        return self

    def with_configuration(self, config: Configuration) -> SettingsBuilder:
        """Set the initial configuration, which is copied; the execution mode is that of it, if it has one."""
        self._configuration = Configuration(config)
        if RUNTIME_MODE.key in config.to_dict():
            self._is_streaming = config.get(RUNTIME_MODE) is not RuntimeExecutionMode.BATCH
        return self

    def with_built_in_catalog_name(self, name: str) -> SettingsBuilder:
        """The name of the first catalog."""
        self._catalog = name
        return self

    def with_built_in_database_name(self, name: str) -> SettingsBuilder:
        """The name of the first database."""
        self._database = name
        return self

    def build(self) -> EnvironmentSettings:
        """The settings."""
        return EnvironmentSettings(self._is_streaming, self._configuration, self._catalog, self._database)


class TableConfig:
    """The settings of a session, by Flink's keys.

    Args:
        configuration: holds the settings.

    Examples:
        >>> from headrace.table import TableEnvironment
        >>> config = TableEnvironment.create().get_config()
        >>> config.set("table.local-time-zone", "Europe/Berlin").get("table.local-time-zone", "")
        'Europe/Berlin'
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def set(self, key: str, value: str) -> TableConfig:
        """Set an option.

        Raises:
            ConfigurationError: for an unknown key with the prefix ``table.`` or ``sql-client.``, or an invalid value.
        """
        check_key(key)
        check_value(key, value)
        self._configuration.set_string(key, value)
        return self

    def get(self, key: str, default_value: str) -> str:
        """The value of a setting; a default when it has none."""
        return self._configuration.get_string(key, default_value)

    def get_configuration(self) -> Configuration:
        """All settings."""
        return self._configuration

    def get_default(self, key: str, default_value: str) -> str:
        """The value of a setting; a default when it has none."""
        return self.get(key, default_value)

    def add_configuration(self, configuration: Configuration) -> None:
        """Take over all settings of another configuration."""
        for key, value in configuration.to_dict().items():
            self.set(key, str(value))

    def to_map(self) -> dict[str, str]:
        """All settings, as texts."""
        return {key: str(value) for key, value in self._configuration.to_dict().items()}

    def set_local_timezone(self, timezone_id: str) -> TableConfig:
        """Set the session time zone."""
        return self.set(LOCAL_TIME_ZONE.key, timezone_id)

    def get_local_timezone(self) -> str:
        """The session time zone."""
        return self._configuration.get(LOCAL_TIME_ZONE)
