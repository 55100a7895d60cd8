"""The pages of the dashboard, as a browser gets them."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.running import GraphCaptured, capture_graphs
from headrace.common import Configuration, SimpleStringSchema, WatermarkStrategy
from headrace.connectors.hybrid import HybridSource
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.log import LogSource, OffsetsInitializer
from headrace.log import Consumer, Log
from headrace.server.archives import snapshot_of_document, snapshot_to_document
from headrace.server.dashboard.snapshot_view import job_view
from headrace.server.dashboard.static_files import STATIC
from headrace.server.settings import RestSettings
from headrace.server.topics import TopicsOfJob
from tests.server.serving import Served
from tests.server.shop import Orders, settings_of, submit
from tests.table.connectors.session import session
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.plan.job_plan import JobPlan

SECRET = "never-to-be-shown"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


BROWSER = urllib.request.build_opener(_NoRedirect)


def get(served: Served, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str, Any]:
    data = None if form is None else urllib.parse.urlencode(form).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = urllib.request.Request(served.server.address + path, data, given)
    try:
        with BROWSER.open(asked, timeout=60) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


class Page(HTMLParser):
    """The elements of a page.

    Args:
        text: the page.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def all(self, *attributes: str) -> list[str]:
        """The values of some attributes."""
        return [value or "" for _, found in self.elements for name, value in found.items() if name in attributes]

    def ids(self) -> list[str]:
        """The ids of all elements."""
        return self.all("id")


def test_the_page_of_the_only_job_is_where_the_first_line_leads(served: Served) -> None:
    client, job = served.start()
    status, _, headers = get(served, "/")
    assert (status, headers["Location"]) == (303, f"/dashboard/jobs/{job}")
    wait_for(lambda: client.snapshot().completed > 2)
    status, text, headers = get(served, f"/dashboard/jobs/{job}")
    assert status == 200
    page = Page(text)
    assert len(page.ids()) == len(set(page.ids()))
    targets = {link.removeprefix("#") for link in page.all("href") if link.startswith("#")}
    assert targets <= set(page.ids())
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert not [each for each in page.all("src", "href") if not each.startswith(("/", "#"))]
    assert not page.all("style", "onclick", "onload")
    assert "one more" in text
    assert re.search(r'<rect class="part-operators"', text)
    trend = json.loads(re.search(r'id="trend">(.*?)</script>', text)[1])  # type: ignore[index]
    assert len(trend["times"]) == len(trend["rate"])
    assert [each["name"] for each in trend["state"]] == ["sum: reduce-state"] or trend["state"]


def test_a_refresh_brings_the_parts_that_the_page_has(served: Served) -> None:
    _, job = served.start()
    _, whole, _ = get(served, f"/dashboard/jobs/{job}")
    _, parts, _ = get(served, f"/dashboard/jobs/{job}", HX_Request="true")
    swapped = [found["id"] for _, found in Page(parts).elements if "hx-swap-oob" in found]
    assert len(swapped) == 17
    assert set(swapped) <= set(Page(whole).ids())
    assert "<html" not in parts


def test_pages_come_compressed_to_who_can_read_that(served: Served) -> None:
    _, job = served.start()
    with BROWSER.open(
        urllib.request.Request(f"{served.server.address}/dashboard/jobs/{job}", headers={"Accept-Encoding": "gzip"})
    ) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert "Accept-Encoding" in answer.headers["Vary"]
        assert Page(gzip.decompress(answer.read()).decode()).ids()


def test_the_overview_lists_jobs_and_says_what_there_is_when_there_is_none(served: Served) -> None:
    assert "No job yet" in get(served, "/dashboard")[1]
    assert get(served, "/")[2]["Location"] == "/dashboard"
    _, job = served.start()
    _, other = served.start()
    places = {f"/dashboard/jobs/{each}" for each in (job, other)}
    wait_for(lambda: places <= set(Page(get(served, "/dashboard")[1]).all("href")))


def test_what_is_not_there_and_what_is_not_allowed_are_pages_too(served: Served) -> None:
    status, text, _ = get(served, f"/dashboard/jobs/{'0' * 32}")
    assert (status, "Nothing is here" in text) == (404, True)
    assert get(served, "/dashboard/jobs/<script>")[0] == 400
    assert "<script>" not in get(served, "/dashboard/%3Cscript%3E/x")[1].split("</head>")[1]
    assert get(served, "/dashboard", Host="evil.example")[0] == 403
    assert get(served, "/dashboard/static/0/../dashboard.css")[0] == 404
    assert get(served, "/dashboard/static/0/pages.py")[0] == 404


def test_files_are_kept_by_browsers_and_have_licences(served: Served) -> None:
    for file in STATIC.values():
        status, text, headers = get(served, file.address)
        assert (status, text.encode()) == (200, file.content)
        assert "immutable" in headers["Cache-Control"]
        assert "http://" not in text.replace("http://www.w3.org", "")


def test_buttons_ask_before_and_tell_what_has_come_of_it(served: Served, tmp_path: Any) -> None:
    client, job = served.start()
    place = f"/dashboard/jobs/{job}/actions"
    _, text, _ = get(served, f"{place}/savepoint")
    assert "Take a savepoint?" in text
    token = re.search(r'name="token" value="(\w+)"', text)[1]  # type: ignore[index]
    assert get(served, f"{place}/savepoint", {"directory": str(tmp_path)})[0] == 403
    assert get(served, f"{place}/savepoint", {"token": token}, Origin="http://evil.example")[0] == 403
    assert get(served, f"{place}/savepoint", {"token": token}, Sec_Fetch_Site="cross-site")[0] == 403
    status, text, _ = get(served, f"{place}/savepoint", {"token": token})
    assert (status, "execution.checkpointing.savepoint-dir" in text) == (200, True)
    status, _, headers = get(served, f"{place}/savepoint", {"token": token, "directory": str(tmp_path)})
    assert status == 303
    wait_for(lambda: str(tmp_path) in get(served, headers["Location"])[1])
    wait_for(lambda: str(tmp_path) in get(served, f"/dashboard/jobs/{job}")[1])
    status, text, _ = get(served, f"{place}/rescale", {"token": token, "parallelism": "many"}, HX_Request="true")
    assert (status, "a number of subtasks" in text, "<html" in text) == (200, True, False)
    assert get(served, f"{place}/rescale", {"token": token, "parallelism": "3"})[0] == 303
    wait_for(lambda: client.snapshot().rescales)
    wait_for(lambda: "parallelism 3" in get(served, f"/dashboard/jobs/{job}")[1])
    assert get(served, f"{place}/explode")[0] == 404
    assert get(served, f"{place}/cancel", {"token": token})[0] == 303
    wait_for(lambda: client.snapshot().end)
    wait_for(lambda: "Canceled" in get(served, f"/dashboard/jobs/{job}")[1])
    assert f"{place}/cancel" not in get(served, f"/dashboard/jobs/{job}")[1]


def test_a_failure_is_shown_with_its_record_and_its_cause_above_all_else(served: Served) -> None:
    client, job = served.start(fails_at=1_000)
    client.get_job_execution_result().exception(timeout=PATIENCE)
    _, text, _ = get(served, f"/dashboard/jobs/{job}")
    assert "The job has failed" in text
    assert re.search(r"<code>1000</code>", text)
    assert "serving.py" in text


def test_secrets_are_masked_and_names_are_text(served: Served) -> None:
    secrets = {"s3.secret-key": SECRET, "my.url": f"jdbc://me:{SECRET}@host/db", "my.<b>key</b>": "<img src=x>"}
    _, job = served.start(**secrets)
    _, text, _ = get(served, f"/dashboard/jobs/{job}")
    assert SECRET not in text
    assert "******" in text
    assert "<img src=x>" not in text
    assert "&lt;img src=x&gt;" in text


def test_a_checkpoint_has_a_page(served: Served) -> None:
    client, job = served.start()
    wait_for(lambda: client.snapshot().completed > 2)
    client.cancel().result(timeout=PATIENCE)
    epochs = client.snapshot().epochs
    status, text, _ = get(served, f"/dashboard/jobs/{job}/checkpoints/{epochs[1].epoch}")
    page = Page(text)
    assert status == 200
    places = page.all("href")
    assert f"/dashboard/jobs/{job}/checkpoints/{epochs[0].epoch}" in places
    assert f"/dashboard/jobs/{job}/checkpoints/{epochs[2].epoch}" in places
    assert "reduce" in text or "sum" in text
    assert get(served, f"/dashboard/jobs/{job}/checkpoints/999999999")[0] == 404
    assert get(served, f"/dashboard/jobs/{job}/checkpoints/x")[0] == 404
    links = Page(get(served, f"/dashboard/jobs/{job}")[1]).all("href")
    assert f"/dashboard/jobs/{job}/checkpoints/{epochs[-1].epoch}" in links


def test_lineage_is_drawn_and_logs_are_told_of(served: Served) -> None:
    _, job = served.start()
    _, text, _ = get(served, f"/dashboard/jobs/{job}")
    section = text[text.index('id="lineage"') : text.index('id="epochs"')]
    assert "<svg" in section
    assert "numbers" in section
    assert "Its process logs to its standard error." in text
    assert get(served, f"/dashboard/jobs/{job}/logs/log")[0] == 404
    assert get(served, f"/dashboard/jobs/{job}/logs/..")[0] == 404


def test_topics_are_shown_with_their_jobs_and_readers(served: Served, tmp_path: Path) -> None:
    assert "No job runs" in get(served, "/dashboard/topics")[1]
    served.start()
    orders = Orders(tmp_path, "nothing")
    settings = settings_of(tmp_path)
    client = submit(tmp_path, orders.log, "nothing", settings)
    served.serve(client, settings)
    group = Consumer(Log.open(str(orders.log)), group_id="auditors")
    group.subscribe(["orders"])
    try:
        wait_for(lambda: client.snapshot().latest)
        wait_for(lambda: group.poll(1.0) and (group.commit() or True))
        job = str(client.get_job_id())
        (place,) = wait_for(lambda: rated(served.rest.get("jobs", job, "topics")["places"]))
        assert (place["kind"], place["place"], place["error"]) == ("embedded log", str(orders.log), "")
        assert [(each["name"], each["partitions"], each["is_used"]) for each in place["topics"]] == [
            ("orders", 4, True)
        ]
        assert [(each["group"], each["topic"]) for each in place["groups"]] == [("auditors", "orders")]
        text = wait_for(lambda: with_text(get(served, "/dashboard/topics")[1], "auditors"))
        assert f"/dashboard/jobs/{job}#lineage" in Page(text).all("href")
        assert "for ever" in text
        parts = get(served, "/dashboard/topics", HX_Request="true")[1]
        assert "<html" not in parts
        assert "auditors" in parts
    finally:
        group.close()
        orders.close()


def test_topics_that_tables_and_parts_of_hybrid_sources_read_are_those_of_the_job(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    log = Log.open(path, create=True)
    for topic in ("read", "written", "other"):
        log.create_topic(topic)
    options = f"'connector' = 'log', 'path' = '{path}', 'format' = 'json'"
    tables = session(
        *(f"CREATE TABLE t_{name} (id INT) WITH ({options}, 'topic' = '{name}')" for name in ("read", "written"))
    )
    with capture_graphs({}) as captured, contextlib.suppress(GraphCaptured):
        tables.execute_sql("INSERT INTO t_written SELECT * FROM t_read")
    assert used(captured[0][1]) == {"read", "written"}
    env = StreamExecutionEnvironment.get_execution_environment()
    first, second = (
        LogSource.builder()
        .set_log(path)
        .set_topics(name)
        .set_bounded(OffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
        for name in ("read", "other")
    )
    source = HybridSource.builder(first).add_source(second).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "both").print()
    with capture_graphs({}) as captured, contextlib.suppress(GraphCaptured):
        env.execute()
    assert used(captured[0][1]) == {"read", "other"}


def used(plan: JobPlan) -> set[str]:
    """The topics that a job reads and writes."""
    (place,) = TopicsOfJob(Configuration()).report(plan).places
    return {each.name for each in place.topics if each.is_used}


def rated(places: Any) -> Any:
    return places if places[0]["topics"] and places[0]["groups"] else None


def with_text(page: str, text: str) -> str | None:
    return page if text in page else None


@pytest.fixture
def guarded() -> Iterator[Served]:
    made = Served(RestSettings("127.0.0.1", (0,), token="correct-horse-battery-staple"))
    yield made
    made.server.close()


def test_without_the_token_browsers_ask_for_it(guarded: Served) -> None:
    for path in ("/", "/dashboard", STATIC["dashboard.js"].address):
        status, _, headers = get(guarded, path)
        assert (status, headers["WWW-Authenticate"].split()[0]) == (401, "Basic")


def test_a_job_that_others_tell_of_is_shown_as_in_its_own_process(served: Served) -> None:
    client, _ = served.start()
    wait_for(lambda: client.snapshot().completed > 2)
    client.cancel().result(timeout=PATIENCE)
    job, configuration = client.snapshot(), Configuration()
    told = snapshot_of_document(json.loads(json.dumps(snapshot_to_document(job), allow_nan=False)))
    assert job_view(told, configuration, 0) == job_view(job, configuration, 0)
