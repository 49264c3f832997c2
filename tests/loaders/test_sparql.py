"""Entities of a SPARQL endpoint: against a real server, and against one that is busy, moved or no endpoint."""

from __future__ import annotations

import gzip
import http.server
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pyoxigraph
import pytest
from tables import for_each

import kbdisk
from kbdisk import SOMEVALUE, Completion, Date, Filled, Link, Quantity, Text
from kbdisk.errors import ConfigError, KBDiskWarning, LoadError, WriteError
from kbdisk.loaders import http as requests
from kbdisk.loaders import sparql

OXIGRAPH = Path(sys.executable).with_name("oxigraph")

TURTLE = """
@prefix ex: <http://ex.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix wd: <https://wiki.example/entity/> .
@prefix wdt: <https://wiki.example/prop/direct/> .
@prefix p: <https://wiki.example/prop/> .
@prefix s: <https://wiki.example/entity/statement/> .
@prefix ps: <https://wiki.example/prop/statement/> .
@prefix psv: <https://wiki.example/prop/statement/value/> .
@prefix v: <https://wiki.example/value/> .

ex:ada a ex:Person ; rdfs:label "Ada"@en ; ex:born "1815-12-10"^^xsd:date ; ex:friend ex:bob ;
    ex:home [ ex:city ex:london ; ex:street [ ex:name "St James's Square" ; ex:house [ ex:number 12 ; ex:door [ ex:colour "red" ] ] ] ] ;
    ex:steps ( 1 2 3 4 5 6 7 8 9 10 ) ; ex:unknown [] .
ex:bob a ex:Person ; rdfs:label "Bob"@en ; ex:age 7 .
ex:london a ex:City ; ex:mayor ex:bob .
ex:untyped ex:age 9 .
[] a ex:City ; ex:age 1 .

wd:Q1 wdt:P31 wd:Q5 ; wdt:P1 "+1.96"^^xsd:decimal ; p:P1 s:1 .
s:1 a wikibase:Statement, wikibase:BestRank ; wikibase:rank wikibase:NormalRank ; ps:P1 "+1.96"^^xsd:decimal ; psv:P1 v:1 .
v:1 wikibase:quantityAmount "+1.96"^^xsd:decimal ; wikibase:quantityUnit wd:Q11573 .
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """The query address of an oxigraph server of our own."""
    if not OXIGRAPH.exists():
        pytest.skip("needs the oxigraph server: pip install oxigraph")
    folder = tmp_path_factory.mktemp("oxigraph")
    (folder / "data.ttl").write_text(TURTLE)
    people = "".join(
        f"<http://ex.org/crowd/{i:04}> a <http://ex.org/Crowd> ; <http://ex.org/age> {i} .\n" for i in range(250)
    )
    (folder / "crowd.ttl").write_text(people)
    files = [str(folder / name) for name in ("data.ttl", "crowd.ttl")]
    subprocess.run([OXIGRAPH, "load", "--location", folder / "db", "--file", *files], check=True, capture_output=True)
    port = free_port()
    place = ["--location", folder / "db", "--bind", f"127.0.0.1:{port}"]
    server = subprocess.Popen([OXIGRAPH, "serve", *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, server)
        yield f"http://127.0.0.1:{port}/query"
    finally:
        server.terminate()
        server.wait(10)


def wait_for(port, server):
    until = time.monotonic() + 120  # a slow machine takes its time
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the oxigraph server did not start")


def entities(url, **options):
    return {one.id.rpartition("/")[2]: one for one in kbdisk.load(url, **options)}


# ---------------------------------------------------------------- a real server


def test_everything_that_has_a_type_and_an_iri_is_an_entity(endpoint):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparql, "PAGE_SIZE", 100)  # so that there are several pages
        found = entities(endpoint)
    assert {"ada", "bob", "london"} < found.keys()
    assert sum(one.classes == ("http://ex.org/Crowd",) for one in found.values()) == 250
    assert "untyped" not in found
    assert [one.tree["age"] for name, one in found.items() if name.isdigit() and len(name) == 4] == list(range(250))


def test_a_class_is_told_by_its_iri_or_its_last_word(endpoint):
    assert entities(endpoint, classes=["http://ex.org/Person"]).keys() == {"ada", "bob"}
    assert entities(endpoint, classes=["City", "http://ex.org/Person"]).keys() == {"ada", "bob", "london"}


def test_a_query_names_the_entities_in_its_own_order(endpoint):
    query = "PREFIX ex: <http://ex.org/> SELECT ?x ?age { ?x ex:age ?age FILTER(?age > 6 && ?age < 10) FILTER(!CONTAINS(STR(?x), 'crowd')) } ORDER BY DESC(?age)"
    assert list(entities(endpoint, query=query)) == ["untyped", "bob"]


def test_an_entity_has_its_values_and_its_blank_nodes_however_deep(endpoint):
    ada = entities(endpoint, classes=["Person"])["ada"]
    assert (ada.id, ada.label, ada.classes) == ("http://ex.org/ada", "Ada", ("http://ex.org/Person",))
    assert ada.tree["label"] == Text("Ada", "en")
    assert ada.tree["born"] == Date(1815, 12, 10)
    assert ada.tree["friend"] == Link("http://ex.org/bob")
    assert ada.get(("home", "city")) == Link("http://ex.org/london")
    assert ada.get(("home", "street", "house", "door", "colour")) == "red"
    assert ada.tree["steps"] == list(range(1, 11))
    assert ada.tree["unknown"] is SOMEVALUE


def test_a_wikibase_answers_by_what_a_thing_is_an_instance_of_and_with_its_statements(endpoint):
    [found] = entities(endpoint, classes=["https://wiki.example/entity/Q5"]).values()
    assert found.tree == {
        "P31": Link("https://wiki.example/entity/Q5"),
        "P1": Quantity(1.96, "https://wiki.example/entity/Q11573"),
    }


def test_the_entities_of_an_endpoint_are_numbered_and_can_be_read_again(endpoint):
    kb = kbdisk.load(endpoint, classes=["Person"])
    first = [(one.id, one.position, one.tree.keys()) for one in kb]
    assert first == [(one.id, one.position, one.tree.keys()) for one in kb]
    assert len({position for _, position, _ in first}) == len(kb) == 2


def test_what_a_query_names_without_an_iri_is_left_out_with_a_warning(endpoint):
    with pytest.warns(KBDiskWarning, match="named by no IRI"):
        assert entities(endpoint, query="SELECT ?age { <http://ex.org/bob> <http://ex.org/age> ?age }") == {}


def test_a_query_that_the_endpoint_refuses_is_one_line_with_its_reason(endpoint):
    with pytest.raises(
        LoadError, match=r"^http://127.0.0.1:\d+/query: expected an answer, got HTTP 400 Bad Request: [^\n]+$"
    ):
        entities(endpoint, query="SELECT ?x { ?x ")


@for_each("query", ["CONSTRUCT WHERE { ?s ?p ?o }", "DESCRIBE <http://ex.org/bob>"])
def test_a_query_that_is_no_select_is_refused(query):
    with pytest.raises(ConfigError, match="--query: expected a SELECT"):
        kbdisk.load("http://127.0.0.1:1/sparql", query=query)


def test_an_ask_with_a_select_in_it_is_refused_too(endpoint):
    with pytest.raises(ConfigError, match="--query: expected a SELECT"):
        entities(endpoint, query="ASK { SELECT ?s { ?s ?p ?o } }")


def test_a_class_that_is_no_iri_is_refused():
    with pytest.raises(ConfigError, match="--class: expected an IRI"):
        entities("http://127.0.0.1:1/sparql", classes=["http://ex.org/> } DROP ALL {"])


def test_another_address_of_the_server_says_what_it_says(endpoint):
    with pytest.raises(LoadError, match="HTTP 404 Not Found"):
        entities(endpoint + "/nowhere")


def test_an_endpoint_is_neither_written_to_nor_read_from_a_file(endpoint, tmp_path):
    [ada, *_] = entities(endpoint, classes=["Person"]).values()
    with pytest.raises(WriteError, match="sparql-update"):
        kbdisk.write([ada], tmp_path / "out", format="sparql")
    (tmp_path / "file").write_text("x")
    with pytest.raises(LoadError, match="expected a file"):
        kbdisk.load(tmp_path / "file", format="sparql")


def test_what_is_new_leaves_an_endpoint_as_an_update_in_its_own_manner(endpoint, tmp_path):
    kb = kbdisk.load(endpoint, classes=["Crowd"])
    one = next(iter(kb))
    new = Completion(one, {("age", 1): Filled(99), ("http://ex.org/height",): Filled(1.75)})
    for target in ("out.ru", "out.nt"):
        report = kbdisk.write([new], tmp_path / target, only_new=target == "out.nt")
        assert (report.written, report.unwritable) == (2, [])
    assert f'<{one.id}> <http://ex.org/age> "99"^^' in (tmp_path / "out.nt").read_text()
    store = pyoxigraph.Store()
    store.update((tmp_path / "out.ru").read_text())
    assert sorted(quad.object.value for quad in store) == ["1.75", "99"]
    with pytest.raises(WriteError, match="nothing new"):
        kbdisk.write(kb, tmp_path / "whole.ru")


# ---------------------------------------------------------------- a server with moods

TRIPLE = b'<http://ex.org/bob> <http://ex.org/age> "7"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
RESULTS = b'{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"uri","value":"http://ex.org/bob"}}]}}'
JSON, NT = "application/sparql-results+json", "application/n-triples"


@contextmanager
def serving(*script):
    """A server that answers by a script of (status, headers, body); what it was asked is kept."""
    answers, asked = iter(script), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append((time.monotonic(), self.path, dict(self.headers), dict(urllib.parse.parse_qsl(form))))
            status, headers, body = next(answers)
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/sparql", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def good(type, body, **headers):
    return 200, {"Content-Type": type} | headers, body


NAMES, AGES = good(JSON, RESULTS), good(NT, TRIPLE)
QUERY = "SELECT ?s { ?s ?p ?o }"


def test_a_question_is_a_form_with_our_name_on_it():
    with serving(NAMES, AGES) as (url, asked):
        assert entities(url, query=QUERY)["bob"].tree == {"age": 7}
    for _, _, headers, form in asked:
        assert headers["Content-Type"] == "application/x-www-form-urlencoded"
        assert headers["User-Agent"].startswith("kbdisk/")
        assert headers["Accept-Encoding"] == "gzip"
        assert form.keys() == {"query"}
    assert "sparql-results+json" in asked[0][2]["Accept"]
    assert "n-triples" in asked[1][2]["Accept"]
    assert asked[0][3]["query"] == QUERY
    assert "VALUES" in asked[1][3]["query"]


def test_a_compressed_answer_is_read():
    packed = good(NT, gzip.compress(TRIPLE), **{"Content-Encoding": "gzip"})
    with serving(NAMES, packed) as (url, _):
        assert entities(url, query=QUERY).keys() == {"bob"}


def test_other_media_types_are_read():
    xml = (
        b'<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="s"/></head>'
        b'<results><result><binding name="s"><uri>http://ex.org/bob</uri></binding></result></results></sparql>'
    )
    turtle = b"@prefix ex: <http://ex.org/> . ex:bob ex:age 7 ."
    with serving(
        good("application/sparql-results+xml; charset=utf-8", xml), good("text/turtle;charset=utf-8", turtle)
    ) as (url, _):
        assert entities(url, query=QUERY)["bob"].tree == {"age": 7}


@for_each("status", [429, 503])
def test_a_busy_server_is_asked_again_when_it_wants_to_be(status, monkeypatch):
    waits = []
    monkeypatch.setattr(requests.time, "sleep", waits.append)
    busy = status, {"Retry-After": "17"}, b"slow down"
    with serving(busy, NAMES, AGES) as (url, asked):
        assert entities(url, query=QUERY).keys() == {"bob"}
    assert (waits, len(asked)) == ([17], 3)


def test_a_time_of_day_tells_when_to_ask_again_too(monkeypatch):
    now, waits = time.time(), []
    monkeypatch.setattr(requests.time, "time", lambda: now)
    monkeypatch.setattr(requests.time, "sleep", waits.append)
    past = 503, {"Retry-After": formatdate(now - 60, usegmt=True)}, b""
    with serving(past, NAMES, AGES) as (url, asked):
        assert entities(url, query=QUERY).keys() == {"bob"}
    assert (waits, len(asked)) == ([0], 3)
    assert 59 <= requests._retry_after(formatdate(now + 60, usegmt=True)) <= 60
    assert requests._retry_after("soon") is None


def test_a_server_that_stays_busy_is_given_up_in_one_line():
    busy = 429, {"Retry-After": "0"}, b""
    with (
        serving(*[busy] * requests.MAX_TRIES) as (url, asked),
        pytest.raises(LoadError, match=r"got HTTP 429 [^\n]*, 5 times in a row. Try again later\."),
    ):
        entities(url, query=QUERY)
    assert len(asked) == requests.MAX_TRIES


def test_a_wait_that_is_too_long_is_told_and_not_waited_for():
    with (
        serving((503, {"Retry-After": "86400"}, b"")) as (url, _),
        pytest.raises(LoadError, match="asks to wait 86400 seconds"),
    ):
        entities(url, query=QUERY)


def test_an_answer_that_breaks_off_is_asked_for_again():
    broken = good(JSON, RESULTS[:50], **{"Content-Length": str(len(RESULTS))})
    with serving(broken, NAMES, AGES) as (url, asked):
        assert entities(url, query=QUERY).keys() == {"bob"}
    assert len(asked) == 3


@for_each("status", [301, 302, 307, 308])
def test_a_moved_endpoint_is_asked_the_same_at_its_new_place(status):
    moved = status, {"Location": "/new"}, b""
    with serving(moved, NAMES, moved, AGES) as (url, asked):
        assert entities(url, query=QUERY).keys() == {"bob"}
    assert [path for _, path, _, _ in asked] == ["/sparql", "/new", "/sparql", "/new"]
    assert asked[1][3] == {"query": QUERY}


def test_a_web_page_is_no_endpoint():
    with (
        serving(good("text/html", b"<h1>Welcome</h1>")) as (url, _),
        pytest.raises(LoadError, match=r"got text/html. Is this"),
    ):
        entities(url, query=QUERY)


def test_an_error_page_gives_its_first_words_without_markup():
    page = b"<html><head><title>x</title><style>a {}</style></head>\n<body>\n<p>Query  timeout: 60 s</p></body></html>"
    said = r"HTTP 500 Internal Server Error: Query  timeout: 60 s$"
    with serving((500, {"Content-Type": "text/html"}, page)) as (url, _), pytest.raises(LoadError, match=said):
        entities(url, query=QUERY)


@for_each("script", [[good(JSON, b'{"head":')], [NAMES, good(NT, b"<http://ex.org/bob> <broken")]])
def test_an_answer_that_is_broken_in_itself_is_an_error(script):
    with serving(*script) as (url, _), pytest.raises(LoadError, match=r"expected (results|triples)"):
        entities(url, query=QUERY)


def test_a_batch_that_fails_can_be_skipped():
    three = RESULTS.replace(b"}]}}", b'},{"s":{"type":"uri","value":"http://ex.org/eve"}}]}}')
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(good(JSON, three), (500, {}, b"no"), good(NT, TRIPLE.replace(b"bob", b"eve"))) as (url, _),
    ):
        patch.setattr(sparql, "BATCH_SIZE", 1)
        kb = kbdisk.load(url, query=QUERY, skip_errors=True)
        assert [one.id for one in kb] == ["http://ex.org/eve"]
    assert [error.problem for error in kb.skipped] == ["expected an answer, got HTTP 500 Internal Server Error: no"]


def test_a_server_that_gives_the_same_page_for_ever_is_found_out():
    with serving(NAMES, NAMES) as (url, _), pytest.raises(LoadError, match="the same page again and again"):
        entities(url)


def test_nobody_there_is_one_line():
    with pytest.raises(
        LoadError, match=r"^http://127.0.0.1:\d+/sparql: cannot be reached: connection refused. Check the address.$"
    ):
        entities(f"http://127.0.0.1:{free_port()}/sparql")


def test_no_answer_in_time_is_one_line():
    with socket.socket() as silent, pytest.MonkeyPatch.context() as patch:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        patch.setattr(requests, "TIMEOUT", 0.2)
        with pytest.raises(LoadError, match=r"no answer within 0\.2 seconds. Ask for less"):
            entities(f"http://127.0.0.1:{silent.getsockname()[1]}/sparql")


@for_each("url", ["http://[bad/sparql", "http://127.0.0.1:port/sparql", "http:///sparql"])
def test_an_address_that_cannot_be_is_one_line(url):
    with pytest.raises(LoadError, match=r"Check"):
        entities(url)
