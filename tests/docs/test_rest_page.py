"""The page on the REST API lists every path, and the document of OpenAPI describes them."""

from __future__ import annotations

import re

from headrace.server.application import openapi
from headrace.server.routes import ROUTES
from tests.docs import routes_table
from tests.docs.documents import between

PAGE = routes_table.PAGE.read_text()


def test_the_table_is_up_to_date() -> None:
    assert between(PAGE, "paths") == routes_table.table(), "run `python -m tests.docs.routes_table`"


def test_every_path_is_described_for_tools() -> None:
    document = openapi(ROUTES)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, re.sub(r":(\w+)", r"{\1}", route.path)) for route in ROUTES}
    ids = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert len(ids) == len(set(ids))
    referred = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert referred <= set(document["components"]["schemas"])
    assert {route.path for route in ROUTES if not route.about.endswith(".")} == set()
