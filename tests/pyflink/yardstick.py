"""PyFlink's own examples and tests of streams: which of them hold here, shown by which test, and what the others need.

The names are those of the tests in ``pyflink/datastream/tests`` and near it; those that PyFlink itself skips are left
out. What is asked there through Java (``JStreamGraph``) is asked here of the plan. ``run_own_tests.py`` runs PyFlink's
tests and says where this is wrong.
"""

from __future__ import annotations

from typing import Final

STREAMS: Final = "tests/pyflink/test_streams.py::"
SPREADING: Final = "tests/datastream/test_spreading.py::"
TWO_STREAMS: Final = "tests/pyflink/test_two_streams.py::"
STATE: Final = "tests/pyflink/test_state.py::"
WINDOWS: Final = "tests/pyflink/test_windows.py::"
EXAMPLES: Final = "tests/pyflink/test_examples.py::"
DECLARED: Final = "tests/datastream/test_settings_without_effect.py::"
KEPT: Final = "tests/datastream/test_settings_without_effect.py::test_a_setting_is_kept_with_a_warning"
ENVIRONMENT: Final = "tests/datastream/test_environment.py::"
CSV: Final = "tests/pyflink/test_files.py::test_csv"
ASYNC: Final = "tests/pyflink/test_async.py::"
SHIPPED: Final = "tests/client/test_dependencies.py::"


def _each(names: str, what: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), what)


HOLDS: Final[dict[str, dict[str, str]]] = {
    "examples": {
        "basic_operations": EXAMPLES + "test_basic_operations",
        "process_json_data": EXAMPLES + "test_process_json_data",
        "state_access": EXAMPLES + "test_state_access",
        "word_count": EXAMPLES + "test_word_count",
        **_each(
            "tumbling_time_window sliding_time_window tumbling_count_window "
            "session_with_gap_window session_with_dynamic_gap_window",
            EXAMPLES + "test_windows",
        ),
        **_each(
            "kafka_avro_format kafka_bytearray_format kafka_csv_format kafka_json_format",
            EXAMPLES + "test_kafka_formats",
        ),
        "streaming_word_count": EXAMPLES + "test_words_of_a_table_are_counted",
        "remote_model_inference": EXAMPLES + "test_rows_of_a_table_are_sent_to_a_model",
        "kafka_row_field_extractor_example": EXAMPLES + "test_kafka_keys_and_values_from_fields",
    },
    "test_data_stream": {
        "test_basic_operations": STREAMS + "test_functions_of_classes_and_lambdas_in_a_chain",
        "test_data_with_custom_class": STREAMS + "test_objects_of_any_class_between_functions",
        "test_collection_type_info": STREAMS + "test_collections_and_times_in_a_row",
        "test_process_function": STATE + "test_a_process_function_sees_timestamps",
        "test_keyed_process_function_with_state": STATE + "test_three_kinds_of_state",
        **_each("test_reducing_state test_aggregating_state", STATE + "test_reducing_and_aggregating_state"),
        **_each(
            "test_keyed_map test_keyed_flat_map test_keyed_filter",
            STATE + "test_state_in_functions_of_keyed_streams",
        ),
        "test_reduce_with_state": STATE + "test_state_in_a_reduce_function",
        **_each(
            "test_process_side_output test_process_multiple_side_output test_side_output_stream_execute_and_collect "
            "test_side_output_chained_with_upstream_operator",
            STATE + "test_side_outputs",
        ),
        "test_keyed_process_side_output": STATE + "test_a_keyed_side_output",
        "test_metrics": "tests/metrics/test_metrics.py::test_each_kind",
        **_each(
            "test_basic_co_operations test_basic_co_operations_with_output_type",
            TWO_STREAMS + "test_functions_of_two_streams",
        ),
        "test_keyed_co_process": TWO_STREAMS + "test_state_and_timers_of_two_keyed_streams",
        **_each("test_keyed_co_map test_keyed_co_flat_map", TWO_STREAMS + "test_state_of_two_keyed_streams"),
        **_each(
            "test_co_process_side_output test_keyed_co_process_side_output",
            TWO_STREAMS + "test_side_outputs_of_two_streams",
        ),
        **_each(
            "test_co_broadcast_process test_keyed_co_broadcast_process test_co_broadcast_side_output "
            "test_keyed_co_broadcast_side_output",
            TWO_STREAMS + "test_broadcast_state",
        ),
        **_each("test_rebalance test_rescale test_shuffle", SPREADING + "test_plans_show_it"),
        "test_partition_custom": SPREADING + "test_a_partitioner",
        "test_force_non_parallel": SPREADING + "test_one_subtask_whatever_the_parallelism",
        "test_broadcast": TWO_STREAMS + "test_a_stream_that_is_broadcast_in_the_plan",
        "test_side_output_tag_reusing": STATE + "test_one_tag_for_two_operators",
        "test_keyed_sum": STREAMS + "test_a_chain_of_sums",
        "test_multi_key_by": STREAMS + "test_a_stream_is_keyed_again",
        "test_keyed_stream_partitioning": STREAMS + "test_a_keyed_stream_has_no_name_and_is_not_spread",
        **_each(
            "test_data_stream_name test_set_parallelism test_set_max_parallelism",
            STREAMS + "test_names_and_parallelism_in_the_plan",
        ),
        "test_union": STREAMS + "test_unions_in_the_plan",
        "test_slot_sharing_group": DECLARED + "test_slot_sharing_groups_are_declarations",
    },
    "test_window": {
        **_each(
            "test_event_time_tumbling_window test_event_time_sliding_window", STREAMS + "test_windows_of_event_time"
        ),
        "test_chained_window": STREAMS + "test_windows_by_a_tuple_and_a_function_behind_them",
        "test_side_output_late_data": STREAMS + "test_late_records_of_windows",
        **_each(
            "test_event_time_session_window test_window_reduce_passthrough test_window_reduce_process "
            "test_window_aggregate_passthrough test_window_aggregate_accumulator_type test_window_aggregate_process "
            "test_event_time_session_window_with_purging_trigger",
            WINDOWS + "test_sessions",
        ),
        "test_event_time_dynamic_gap_session_window": WINDOWS + "test_sessions_with_a_gap_for_each_element",
        "test_count_tumbling_window": WINDOWS + "test_tumbling_count_windows",
        **_each(
            "test_event_time_tumbling_window_all test_window_all_reduce test_window_all_reduce_process "
            "test_window_all_aggregate test_window_all_aggregate_process",
            WINDOWS + "test_windows_of_all_records",
        ),
        "test_count_sliding_window": WINDOWS + "test_sliding_count_windows",
        "test_global_window_with_purging_trigger": WINDOWS + "test_a_global_window_with_a_purging_trigger",
    },
    "test_stream_execution_environment": {
        **_each(
            "test_get_config test_get_set_parallelism test_get_set_max_parallelism", ENVIRONMENT + "test_parallelism"
        ),
        "test_set_runtime_mode": ENVIRONMENT + "test_runtime_mode",
        **_each("test_get_set_buffer_timeout test_operation_chaining test_enable_changelog_state_backend", KEPT),
        "test_is_changelog_state_backend_enabled": KEPT,
        "test_get_set_default_local_parallelism": DECLARED + "test_local_parallelism",
        **_each("test_add_jars_basic test_add_classpaths_basic", ENVIRONMENT + "test_dependencies"),
        **_each(
            "test_get_checkpoint_config test_get_set_checkpoint_interval test_get_set_checkpointing_mode",
            ENVIRONMENT + "test_checkpoints",
        ),
        "test_configure": ENVIRONMENT + "test_configuration_is_copied_both_ways",
        "test_from_collection_without_data_types": STREAMS + "test_all_kinds_of_values",
        "test_execute_async": "tests/client/test_job_ids.py::test_it_is_the_same_before_the_job_looks_for_checkpoints",
        "test_register_slot_sharing_group": DECLARED + "test_slot_sharing_groups_are_declarations",
        "test_add_python_archive": STREAMS + "test_an_archive_by_its_relative_path",
        "test_register_cached_file": SHIPPED + "test_functions_find_cached_files",
        "test_set_requirements_without_cached_directory": SHIPPED + "test_functions_import_what_was_added",
    },
    "connectors/test_file_system": {
        "test_file_sink": "tests/pyflink/test_files.py::test_a_file_sink_with_all_settings",
        "test_file_source": "tests/pyflink/test_files.py::test_a_split_assigner_is_accepted",
    },
    "formats/test_csv": {
        **_each(
            "test_csv_allow_comments test_csv_use_header test_csv_strict_headers test_csv_default_quote_char "
            "test_csv_customize_quote_char test_csv_use_escape_char test_csv_use_escape_char_write "
            "test_csv_array_column test_csv_array_column_write",
            CSV,
        ),
        "test_csv_row_serialization_schema": "tests/formats/test_csv_messages.py::test_what_is_written_is_read",
    },
    "formats/test_json": {
        "test_json_row_serialization_deserialization_schema": "tests/formats/test_json_messages.py::test_messages",
    },
    "common/test_serialization_schemas": {
        "test_simple_string_schema": "tests/common/test_serialization.py::test_strings",
        "test_simple_byte_schema": "tests/common/test_serialization.py::test_bytes_are_not_touched",
    },
    "common/test_execution_config": {
        "test_constant": ENVIRONMENT + "test_parallelism_that_is_left_to_the_runtime",
        **_each(
            "test_get_set_parallelism test_get_set_max_parallelism test_get_execution_environment_with_config",
            ENVIRONMENT + "test_parallelism",
        ),
        "test_get_set_global_job_parameters": ENVIRONMENT + "test_job_parameters",
        "test_equals_and_hash": ENVIRONMENT + "test_execution_configs_are_compared_by_what_they_say",
        "test_disable_enable_auto_generated_uids": DECLARED + "test_operators_without_uid_can_be_refused",
        **_each(
            "test_disable_enable_object_reuse test_get_set_auto_watermark_interval test_get_set_closure_cleaner "
            "test_get_set_task_cancellation_interval test_get_set_task_cancellation_timeout "
            "test_get_set_use_snapshot_compression",
            KEPT,
        ),
    },
    "common/test_watermark_strategy": {
        "test_with_watermark_alignment": "tests/jobmanager/test_alignment.py::test_what_cannot_be_aligned_is_refused",
    },
    "test_checkpoint_storage": {
        **_each(
            "test_create_fs_checkpoint_storage test_get_checkpoint_path test_get_min_file_size_threshold "
            "test_create_jobmanager_checkpoint_storage test_get_max_state_size test_constant",
            ENVIRONMENT + "test_checkpoint_storages_are_settings",
        ),
    },
    "test_state_backend": {
        **_each(
            "test_create_rocks_db_state_backend test_get_set_number_of_transfer_threads test_get_set_options "
            "test_get_set_predefined_options",
            DECLARED + "test_state_backends_are_declarations",
        ),
        "test_get_set_db_storage_paths": DECLARED + "test_folders_of_rocksdb_are_paths_of_this_machine",
    },
    "test_slot_sharing_group": {
        **_each(
            "test_build_slot_sharing_group_with_specific_resource test_build_slot_sharing_group_with_unknown_resource",
            DECLARED + "test_slot_sharing_groups_are_declarations",
        ),
        **_each(
            "test_build_slot_sharing_group_with_illegal_config "
            "test_build_slot_sharing_group_without_all_required_config",
            DECLARED + "test_a_slot_sharing_group_that_says_too_little_is_refused",
        ),
    },
    "common/test_configuration": {
        "test_getters_and_setters": "tests/common/test_configuration.py::test_typed_getters_and_setters",
        **_each(
            "test_init test_key_set test_add_all test_contains_key test_remove_config",
            "tests/common/test_configuration.py::test_as_a_collection",
        ),
        "test_add_all_to_dict": "tests/common/test_configuration.py"
        "::test_a_dict_gets_numbers_and_booleans_as_they_were_set",
        "test_to_dict": "tests/common/test_configuration.py::test_values_are_kept_as_text",
        "test_deepcopy": "tests/common/test_configuration.py::test_configurations_are_compared_as_text",
        "test_hash_equal_str": "tests/common/test_configuration.py::test_its_text_is_as_in_flink_and_has_no_secrets",
        **_each(
            "test_parse_list_value test_parse_list_value_standard_yaml test_parse_list_value_non_standard_yaml",
            "tests/common/test_configuration.py::test_values_that_are_lists",
        ),
    },
    "common/test_typeinfo": {
        **_each(
            "test_row_type test_tuple_type",
            "tests/common/test_typeinfo.py::test_types_made_of_lists_are_those_made_of_tuples",
        ),
    },
    "test_check_point_config": {
        **_each(
            "test_is_checkpointing_enabled test_get_set_checkpointing_mode test_get_set_checkpoint_interval "
            "test_get_set_checkpoint_timeout",
            ENVIRONMENT + "test_checkpoints",
        ),
        **_each(
            "test_get_set_min_pause_between_checkpoints test_get_set_fail_on_checkpointing_errors "
            "test_get_set_tolerable_checkpoint_failure_number",
            ENVIRONMENT + "test_what_may_happen_to_checkpoints",
        ),
        **_each(
            "test_get_set_max_concurrent_checkpoints test_is_unaligned_checkpointing_enabled",
            KEPT,
        ),
    },
    "test_async_function": {
        **_each("test_unordered_mode test_ordered_mode", ASYNC + "test_ordered_and_unordered"),
        "test_watermark": ASYNC + "test_with_watermarks",
        **_each(
            "test_non_iterable_result test_none_result test_raise_exception_in_async_invoke "
            "test_raise_exception_in_timeout",
            ASYNC + "test_what_fails",
        ),
        "test_processing_timeout": ASYNC + "test_timeouts",
        "test_async_with_retry": ASYNC + "test_retries",
    },
    "test_async_batch_function": {
        **_each(
            "test_basic_batch_execution test_batch_size_triggering test_batch_timeout_triggering "
            "test_ordered_wait_batch test_end_of_input_flush test_large_batch_with_multiple_outputs",
            ASYNC + "test_batches",
        ),
        **_each(
            "test_exception_propagation test_non_list_result_error test_none_result_error",
            ASYNC + "test_batches_that_fail",
        ),
        "test_timeout_handling": ASYNC + "test_batches_that_take_too_long",
        **_each("test_validation_negative_batch_size test_validation_non_async_method", ASYNC + "test_what_is_refused"),
    },
}
"""By file of PyFlink: its tests or examples, and the test that shows the same here."""

NEEDS: Final[dict[str, dict[str, str]]] = {
    "examples": {
        "elasticsearch": "datastream.connectors.elasticsearch",
        "pulsar": "datastream.connectors.pulsar",
    },
    "test_stream_execution_environment": {
        **_each("test_add_python_file test_add_python_file_2", "table.expressions"),
        **_each("test_add_custom_source", "StreamExecutionEnvironment.add_source"),
        "test_add_jars": "datastream.connectors.FlinkKafkaConsumer",
        "test_add_classpaths": "datastream.connectors.FlinkKafkaConsumer",
    },
    "connectors/test_file_system": {
        "test_stream_file_sink": "datastream.connectors.file_system.StreamingFileSink",
    },
}
"""Likewise: the name of PyFlink that they need and that is missing here."""

DIFFERS: Final[dict[str, dict[str, str]]] = {
    "examples": {"event_time_timer": "P-01"},
    "test_data_stream": {
        "test_keyed_min_by_and_max": "P-02",
        "test_execute_and_collect": "P-03",
        "test_project": "P-04",
        "test_chaining_strategy": "P-05",
        "test_function_with_error": "P-06",
        "test_keyed_stream_union": "P-04",
    },
    "test_window": {"test_session_window_late_merge": "P-01"},
    "test_check_point_config": {"test_get_set_externalized_checkpoints_retention": "P-13"},
    "test_async_function": {"test_run_async_function_in_thread_mode": "P-14"},
    "test_stream_execution_environment": {
        "test_from_collection_with_data_types": "P-07",
        "test_set_stream_env": "P-08",
        "test_get_state_backend": "P-09",
        "test_generate_stream_graph_with_dependencies": "P-04",
        "test_set_requirements_with_cached_directory": "P-15",
        "test_execute": "P-16",
    },
    "formats/test_csv": {
        **_each("test_csv_primitive_column test_csv_add_columns_from test_csv_primitive_column_write", "P-07"),
        **_each("test_csv_default_quote_char_write test_csv_customize_quote_char_write", "P-12"),
    },
}
"""Likewise: the row in ``docs/flink-compatibility.md`` that says what is different, and which test shows it."""
