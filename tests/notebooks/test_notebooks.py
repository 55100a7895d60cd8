"""Notebooks as users have them, executed by a kernel: without Spark, with a session of theirs, with headrace's."""

from __future__ import annotations

import pytest

from tests.notebooks.notebook import ROOT, Executed

pytestmark = [pytest.mark.integration, pytest.mark.apart, pytest.mark.long]


def without_errors(notebook: Executed, cells: int) -> None:
    assert [notebook.traceback(cell) for cell in range(cells)] == [""] * cells


BEGIN = """
    import os, tempfile, time
    from headrace.common import Configuration
    from headrace.datastream import StreamExecutionEnvironment

    def environment(more={}):
        settings = {"headrace.runtime": "local", "parallelism.default": "1", **more}
        return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))

    gate = os.path.join(tempfile.mkdtemp(), "open")

    def passed(value):
        while not os.path.exists(gate):
            time.sleep(0.05)
        return True

    def slow(value):
        time.sleep(0.7)
        return True
"""


@pytest.fixture(scope="module")
def local() -> Executed:
    return Executed.of(
        BEGIN,
        # 1: a stream, 2: its environment, 3: a job and its result
        """
        env = environment()
        pairs = env.from_collection([("a", 1), ("b", 2)]).name("pairs")
        pairs
        """,
        "pairs.print(); env",
        "env.execute('pairs')",
        # 4: a job that takes so long that it is seen to go on
        """
        env = environment({"headrace.epoch.max-records": "1"})
        env.from_sequence(1, 3).filter(slow).print()
        env.execute("slow")
        """,
        # 5: a function that fails, 6: a job that nobody wants to watch
        """
        env.from_collection([0]).map(lambda x: 1 / x).print()
        env.execute("failing")
        """,
        """
        env = environment({"headrace.progress": "false"})
        env.from_sequence(1, 2).print()
        env.execute("quiet").get_net_runtime() >= 0
        """,
        # 7: a job that runs beside the cells, 8: another cell, 9: the end of that job
        """
        env = environment()
        env.from_sequence(1, 1).filter(passed).print()
        client = env.execute_async("beside")
        """,
        "print('meanwhile'); client",
        "open(gate, 'w').close(); client.get_job_execution_result().result()",
        # 10: a misspelled method, 11: a cell that is interrupted
        "env.from_sequence(1, 1).keyBy('a')",
        """
        import signal, threading
        env = environment({"headrace.progress": "false"})
        env.from_sequence(1, 1).filter(lambda v: time.sleep(60)).print()
        threading.Timer(2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        env.execute("interrupted")
        """,
        # 12: statements, 13: a query that ends, 14 and 15: one that does not, 16: a name that is wrong
        """
        %load_ext headrace
        from headrace.table import TableEnvironment
        tables = TableEnvironment.create()
        for key in ("headrace.runtime=local", "parallelism.default=1", "headrace.progress=false"):
            tables.get_config().set(*key.split("="))
        %sql CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'fields.n.min' = '1', 'fields.n.max' = '2')
        """,
        """
        %%sql tables
        SELECT '<b>' AS b, COUNT(*) AS n FROM numbers /*+ OPTIONS('number-of-rows' = '150') */;
        SELECT n FROM numbers /*+ OPTIONS('number-of-rows' = '150') */
        """,
        "threading.Timer(2.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()",
        """
        %%sql
        SELECT n, COUNT(*) AS counted FROM numbers GROUP BY n
        """,
        """
        %%sql numbers
        SELECT 1
        """,
    )


@pytest.mark.slow
def test_a_stream_and_its_environment_are_drawn(local: Executed) -> None:
    assert "<strong>DataStreamSource</strong>" in local.value(1)
    assert "<svg" in local.value(1)
    assert ">pairs</text>" in local.value(1)
    assert "Print to Std. Out</text>" in local.value(2)


@pytest.mark.slow
def test_a_job_shows_its_records_its_result_and_one_line(local: Executed) -> None:
    assert local.stream(3) == "('a', 1)\n('b', 2)\n"
    assert "<strong>JobExecutionResult</strong>" in local.value(3)
    (line,) = local.shown(3)
    assert "job &#x27;pairs&#x27; ended at epoch 1: 2 records" in line


def test_progress_is_redrawn_in_place(local: Executed) -> None:
    live = [html for html in local.updates if "<strong>slow" in html]
    assert live
    assert "records/s" in live[-1]
    (line,) = local.shown(4)
    assert "job &#x27;slow&#x27; ended" in line
    assert local.updates.index(line) > local.updates.index(live[-1])


def test_a_failing_function_is_one_message(local: Executed) -> None:
    shown = local.traceback(5)
    assert "ZeroDivisionError" in shown
    assert "UserFunctionError" in shown
    assert "src/headrace" not in shown
    assert "at cell In[6], line 1 in <lambda>" in shown
    assert "ipykernel" not in shown
    assert "job &#x27;failing&#x27; failed" in local.shown(5)[0]


def test_a_misspelled_method_is_one_message(local: Executed) -> None:
    shown = local.traceback(10)
    assert "UnknownNameError: DataStreamSource has no 'keyBy': did you mean key_by?" in shown
    assert "src/headrace" not in shown


def test_an_interrupted_cell_shows_its_own_line_alone(local: Executed) -> None:
    shown = local.traceback(11)
    assert "KeyboardInterrupt" in shown
    assert "headrace/" not in shown
    assert "threading.py" not in shown


def test_progress_can_be_turned_off(local: Executed) -> None:
    assert local.stream(6) == "1\n2\n"
    assert local.shown(6) == []


def test_a_job_beside_the_cells_is_shown_where_it_was_started(local: Executed) -> None:
    assert local.stream(8) == "meanwhile\n"
    assert local.shown(8) == []
    assert "<td" in local.value(8)
    assert "RUNNING" in local.value(8)
    assert "job &#x27;beside&#x27; ended" in local.shown(7)[0]
    assert "<strong>JobExecutionResult</strong>" in local.value(9)


def test_rows_of_a_query_are_below_its_cell(local: Executed) -> None:
    assert local.stream(12) == "[INFO] Execute statement succeeded.\n"
    counted, listed = local.shown(13)
    assert "<strong>1 row</strong>" in counted
    assert "&lt;b&gt;</td>" in counted
    assert ">150</td>" in counted
    assert "150 rows, the last 100 of them" in listed
    assert listed.count("<tr>") == 101


def test_a_query_grows_until_its_cell_is_interrupted(local: Executed) -> None:
    (shown,) = local.shown(15)
    assert "<strong>2 rows, stopped</strong>" in shown
    assert local.traceback(15) == ""
    assert any("2 rows, running" in html for html in local.updates)


def test_an_environment_that_is_none_is_told(local: Executed) -> None:
    assert "numbers is not a TableEnvironment, whose name may follow %%sql" in local.stream(16, "stderr")


SPARK_BEGIN = """
    from headrace.common import Configuration
    from headrace.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
"""


@pytest.fixture(scope="module")
def on_spark() -> Executed:
    return Executed.of(
        SPARK_BEGIN,
        # 1 to 3: jobs where there is no session
        "env.from_sequence(1, 3).print(); env.execute('first')",
        "list(env.from_sequence(4, 5).execute_and_collect('second', limit=5))",
        "from pyspark.sql import SparkSession; print(SparkSession.active().range(3).count())",
        # 4: a session of the user's, which has what is set in Java already but for what is said here
        """
        SparkSession.active().stop()
        settings = {"spark.master": "local[1]", "spark.sql.adaptive.enabled": "true"}
        spark = SparkSession.builder.config(map=settings).getOrCreate()
        """,
        # 5 to 7: jobs where there is one
        "env.from_sequence(1, 3).print(); env.execute('third')",
        "env.from_sequence(4, 5).print(); env.execute('fourth')",
        "assert SparkSession.active() is spark; print(spark.range(3).count())",
    )


def test_no_cell_on_spark_fails(on_spark: Executed) -> None:
    without_errors(on_spark, 8)


def test_a_session_is_started_where_there_is_none_and_serves_all_jobs(on_spark: Executed) -> None:
    assert on_spark.stream(1) == "1\n2\n3\n"
    assert [html for html in on_spark.updates if "starting Spark, master local" in html]
    assert "job &#x27;first&#x27; ended" in on_spark.shown(1)[0]
    assert on_spark.stream(3) == "3\n"
    assert "should be" not in on_spark.stream(1, "stderr") + on_spark.stream(2, "stderr")


def test_a_session_that_is_there_is_used_warned_of_once_and_left_alone(on_spark: Executed) -> None:
    assert (on_spark.stream(5), on_spark.stream(6), on_spark.stream(7)) == ("1\n2\n3\n", "4\n5\n", "3\n")
    assert "job &#x27;fourth&#x27; ended" in on_spark.shown(6)[0]
    assert on_spark.stream(5, "stderr").count("should be") == 1, "one table"
    assert "should be" not in on_spark.stream(6, "stderr")


def test_the_example() -> None:
    notebook = Executed.read(ROOT / "examples" / "card_spending.ipynb")
    without_errors(notebook, 13)
    assert ">spending a minute</text>" in notebook.value(3)
    assert notebook.value(5, "text/plain").count("Row(") == 2
    assert ">Stage 1</text>" in notebook.value(7)
    assert notebook.stream(9) == "+I[ann,0,60000,2,20.0]\n+I[bob,0,60000,1,80.0]\n+I[ann,60000,120000,1,3.0]\n"
    assert "job &#x27;spending&#x27; ended" in notebook.shown(9)[0]
    assert len(notebook.shown(11)) == 1
    assert notebook.value(12, "text/plain") == "4"
