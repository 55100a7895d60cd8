"""Topics of Kafka as sources and sinks, read and written by librdkafka in the tasks."""
