"""Mutators: bytes that a reader of some format may meet, made of sound ones. Every choice comes from one generator.

`mutate_bytes` knows no format. `mutate_tokens` and `mutate_lines` need text. `mutate_tree` changes what JSON and YAML
hold, `random_table` makes a table for Parquet of any column types.
"""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

BYTES = [
    b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\r", b"\r\n", b"\n", b"\t", b"\x0b", b"\x0c", b"\x1b[31m", b"\x7f", b"\x85", b"\xc2\x85",
    b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xe2\x80\xae", b"\xe2\x81\xa6", b"\xe2\x80\xa8", b"\xe2\x80\x8b",
    b"\xf0\x9f\x9a\x80", b"\\u0000", b"\\ud800", b"\\uD83D\\uDE80", b"\\U00110000", b"\\", b'"', b"'", b'"""', b"`", b"<", b">", b"<<", b">>",
    b"{", b"}", b"[", b"]", b"(", b")", b",", b";", b".", b":", b"@", b"^^", b"#", b"%", b"&", b"&#0;", b"&#xD800;", b"&lol;", b"=", b"-", b"+",
    b"NaN", b"Infinity", b"-Infinity", b"null", b"true", b"1e999", b"-1e-999", b"0x1F", b"1_000", b"0" * 400, b"9" * 400, b"9" * 5000,
    b"18446744073709551616", b"9223372036854775808", b"1e308", b"5e-324", b"-0", b"0000-00-00", b"9999-99-99", b"-99999999999-12-31",
    b"+1952-00-00T00:00:00Z", b"2001-02-29", b"24:00:00", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?x?>", b"@prefix", b"@base <x:> .", b"_:b",
    b"*a", b"&a ", b"!!python/object", b"---\n", b"...\n", b"? ", b"| ", b"<<: *a",
]  # fmt: skip
RUNS = [
    b" ",
    b"\n",
    b"\t",
    b"(",
    b"[",
    b"{",
    b"a",
    b"0",
    b"-",
    b'"',
    b"\\",
    b"<",
    b";",
    b",",
    b"\xc3\xa9",
    b'{"a":',
    b"[[",
    b"<a>",
    b"<<",
    b"- ",
]
WORDS = [
    "", "0", "-1", "1", "00", "x", "a b", "ü", "\u202eabc", "\x1b[2J", "\x00", "nan", "inf", "null", "true", "[]", "{}", "0000-00-00", "2001-13-45",
    "1e308", "-1e308", "1e-320", "9" * 30, "9" * 400, "9" * 5000, "1" * 70 + ".5", " ", " " * 3000, "a" * 70000, "=1+1", "@cmd", "+1", "-", "~", "?",
    "1952-03", "-0044-03-15", "12 m", "3,5 kg", "59.3, 18.1", "Point(1 2)", "http://a/b", "_:x", "id", "type", "@id", "@type", "@value", "@context",
    "\ud800", "\U0010ffff", "a\nb", 'a"b', "a\\b", "__proto__", "launch.year", "a.b", "[0]", "..", "/", "\u2028", "e\u0301", "ﬁ", "٣", "½", "Ⅷ",
]  # fmt: skip
NUMBERS = [
    0,
    -0.0,
    1,
    -1,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**40,
    10**400,
    1e308,
    -1e308,
    5e-324,
    1e16,
    0.1,
    float("nan"),
    float("inf"),
]
TAGGED = [
    {"@date": "1952-03"}, {"@date": "0000-00-00"}, {"@date": 5}, {"@date": "1952", "@precision": "1Ma", "@time": "x", "@calendar": "x", "@note": "?"},
    {"@quantity": 1, "@unit": "m"}, {"@quantity": "x", "@unit": None}, {"@quantity": {"@decimal": "1E+400"}, "@unit": ""}, {"@id": "vasa"}, {"@id": 1},
    {"@value": "x", "@language": "en"}, {"@value": "x"}, {"@value": 1, "@type": "x"}, {"@latitude": 1, "@longitude": 2, "@globe": "x"}, {"@decimal": "NaN"},
    {"@latitude": 1e308, "@longitude": {"@decimal": "1e-400"}}, {"@known": "somevalue"}, {"@known": 1}, {"@decimal": "1.50"}, {"@decimal": "1E+999999"},
    {"value": 1e308, "unit": "m"}, {"year": 1e308}, {"year": 0, "month": 0, "day": 0}, {"year": 10**30}, {"lat": 91, "lon": 1e308},
]  # fmt: skip
_TOKEN = re.compile(rb"\s+|[\w.-]+|[^\s\w]", re.ASCII)


def mutate_bytes(random: Random, data: bytes, others: list[bytes]) -> bytes:
    """Flips, deletes, duplicates, cuts off, splices, or inserts what readers stumble over."""
    place = random.randrange(len(data) + 1)
    end = min(len(data), place + random.choice([1, 1, 2, 4, 16, 100]))
    match random.randrange(10):
        case 0:
            return data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]
        case 1:
            return data[:place] + data[end:]
        case 2:
            return data[:end] + data[place:]
        case 3:
            return data[:place]
        case 4:
            other = random.choice(others)
            return data[:place] + other[random.randrange(len(other) + 1) :]
        case 5:
            return data[:place] + random.choice(RUNS) * random.choice([10, 300, 3000, 20000]) + data[place:]
        case 6:
            flipped = bytes([data[place] ^ (1 << random.randrange(8))]) if place < len(data) else b"\x80"
            return data[:place] + flipped + data[place + 1 :]
        case _:
            return data[:place] + random.choice(BYTES) + data[place:]


def mutate_tokens(random: Random, data: bytes) -> bytes:
    """Drops, repeats, exchanges or replaces a word, a number or a mark."""
    tokens = _TOKEN.findall(data)
    marks = [number for number, token in enumerate(tokens) if not token.isspace()]
    if not marks:
        return data
    first, second = random.choice(marks), random.choice(marks)
    match random.randrange(5):
        case 0:
            del tokens[first]
        case 1:
            tokens[first] *= random.choice([2, 2, 3, 500])
        case 2:
            tokens[first], tokens[second] = tokens[second], tokens[first]
        case 3:
            tokens[first] = tokens[second]
        case _:
            tokens[first] = (
                random.choice(WORDS).encode("utf-8", "surrogatepass") if random.random() < 0.5 else random.choice(BYTES)
            )
    return b"".join(tokens)


TERMS = [
    b'"1"^^<http://www.w3.org/2001/XMLSchema#integer>', b'"x"^^<http://www.w3.org/2001/XMLSchema#integer>', b'"1e308"^^<http://www.w3.org/2001/XMLSchema#double>',
    b'"INF"^^<http://www.w3.org/2001/XMLSchema#double>', b'"NaN"^^<http://www.w3.org/2001/XMLSchema#float>', b'"0000-00-00"^^<http://www.w3.org/2001/XMLSchema#date>',
    b'"-13798000000-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>', b'"1952-02-30"^^<http://www.w3.org/2001/XMLSchema#date>', b'"--02-30"^^<http://www.w3.org/2001/XMLSchema#gMonthDay>',
    b'"P1Y"^^<http://www.w3.org/2001/XMLSchema#duration>', b'"5 km"^^<https://w3id.org/cdt/ucum>', b'"km"^^<https://w3id.org/cdt/length>', b'"POINT(1 2)"^^<http://www.opengis.net/ont/geosparql#wktLiteral>',
    b'"POINT(1e999 x)"^^<http://www.opengis.net/ont/geosparql#wktLiteral>', b'"maybe"^^<http://www.w3.org/2001/XMLSchema#boolean>', b'"x"@en', b'"x"@de-1901', b'"\\u202E\\u0000"', b'"a\\nb\\rc"',
    b'"' + b"9" * 6000 + b'"^^<http://www.w3.org/2001/XMLSchema#integer>', b'"<b>"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#XMLLiteral>', b'"{"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON>',
    b"<http://example.org/a>", b"<>", b"<#>", b"<a b>", b"<http://a/\\u0020>", b"<urn:x>", b"<http://[>", b"<http://example.org/" + b"x" * 5000 + b">", b"_:b0", b"_:b1", b"[]", b"()", b"( 1 ( 2 ) )",
    b"[ <http://example.org/p> [ <http://example.org/p> 1 ] ]", b"true", b"-1.5e-400", b"+00", b"a", b"<http://www.w3.org/1999/02/22-rdf-syntax-ns#first>", b"<http://www.w3.org/1999/02/22-rdf-syntax-ns#rest>",
    b"<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", b"<http://www.w3.org/1999/02/22-rdf-syntax-ns#nil>", b"<http://www.w3.org/2000/01/rdf-schema#label>", b"<<( <a:a> <a:b> <a:c> )>>",
]  # fmt: skip
_TERM = re.compile(
    rb'"(?:[^"\\\n]|\\.)*"(?:\^\^<[^>]*>|\^\^[\w:]+|@[\w-]+)?|<[^<>\s]*>|_:\w+|[\w-]*:[\w-]+|(?<=\s)[\d.e-]+|\[\]'
)


def mutate_terms(random: Random, data: bytes) -> bytes:
    """Replaces a term of an RDF file by a sound one, by one that cannot be, or by another of the file."""
    terms = list(_TERM.finditer(data))
    for _ in range(random.choice([1, 1, 2, 4])):
        term, other = random.choice(terms), random.choice(terms)[0]
        data = data[: term.start()] + (random.choice(TERMS) if random.random() < 0.6 else other) + data[term.end() :]
        terms = list(_TERM.finditer(data)) or terms
    return data


def mutate_lines(random: Random, data: bytes) -> bytes:
    """Drops, repeats, exchanges lines, or changes how they end."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    first, second = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(5):
        case 0:
            del lines[first]
        case 1:
            lines.insert(second, lines[first])
        case 2:
            lines[first], lines[second] = lines[second], lines[first]
        case 3:
            lines[first:] = lines[first:] * 30
        case _:
            end = random.choice([b"\r", b"\r\n", b"", b"\n\n", b"\x0b", b"\xc2\x85", b"\xe2\x80\xa8"])
            return end.join(line.rstrip(b"\r\n") for line in lines)
    return b"".join(lines)


def random_value(random: Random, depth: int = 0) -> Any:
    """Any value that JSON can hold, and some that Python's json alone writes."""
    match random.randrange(9):
        case 0 | 1:
            return random.choice(WORDS)
        case 2 | 3:
            return random.choice(NUMBERS)
        case 4:
            return random.choice([None, True, False, [], {}])
        case 5:
            return random.choice(TAGGED)
        case 6 if depth < 3:
            return [random_value(random, depth + 1) for _ in range(random.randrange(4))]
        case 7 if depth < 3:
            return {random.choice(WORDS): random_value(random, depth + 1) for _ in range(random.randrange(4))}
        case _:
            return nested(random.choice([5, 60, 150]), random.choice([list, dict]))


def nested(depth: int, kind: type) -> Any:
    """Lists in lists, or parts in parts."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


def mutate_tree(random: Random, tree: Any) -> Any:
    """Drops, repeats, renames, exchanges or replaces something in a tree, which is changed in place."""
    places = list(_places(tree))
    if not places:
        return random_value(random)
    holder, key = random.choice(places)
    other_holder, other_key = random.choice(places)
    match random.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[random.choice([*WORDS, *holder])] = holder.pop(key)
        case 2:
            value = other_holder[other_key]
            holder[key] = json.loads(json.dumps(value))  # a copy: no circles
        case 3 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case 4 if random.random() < 0.1:
            return random_value(random)
        case _:
            holder[key] = random_value(random)
    return tree


def _places(tree: Any) -> Any:
    rest = [tree]
    while rest:
        holder = rest.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, value in items:
            yield holder, key
            rest.append(value)


def mutate_json(random: Random, data: bytes) -> bytes:
    """The same for a JSON file; keys may come twice in what is written."""
    tree = json.loads(data)
    for _ in range(random.choice([1, 1, 2, 5])):
        tree = mutate_tree(random, tree)
    text = json.dumps(tree, ensure_ascii=random.random() < 0.7, indent=random.choice([None, 2]))
    if random.random() < 0.1:
        text = re.sub(r'"(\w+)":', lambda match: match[0] if random.random() < 0.7 else '"name":', text)
    return text.encode("utf-8", "surrogatepass")


def mutate_json_lines(random: Random, data: bytes) -> bytes:
    """The same for a line of JSON Lines."""
    lines = data.splitlines()
    filled = [number for number, line in enumerate(lines) if line.strip()]
    for _ in range(random.choice([1, 1, 3])):
        number = random.choice(filled)
        lines[number] = mutate_json(random, lines[number]).replace(b"\n", b"")
    return b"\n".join(lines) + b"\n" * random.choice([0, 1, 1, 2])


def mutate_yaml(random: Random, data: bytes) -> bytes:
    """The same for a YAML file."""
    import yaml

    tree = yaml.safe_load(data)
    for _ in range(random.choice([1, 1, 2])):
        tree = mutate_tree(random, tree)
    return yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")


def mutate_cells(random: Random, data: bytes) -> bytes:
    """Replaces a cell of a table, or adds or drops one."""
    lines = data.splitlines(keepends=True)
    number = random.randrange(len(lines))
    mark = max([b",", b";", b"\t"], key=data.count)
    cells = lines[number].split(mark)
    place = random.randrange(len(cells))
    match random.randrange(4):
        case 0:
            del cells[place]
        case 1:
            cells.insert(place, cells[place])
        case _:
            cells[place] = random.choice(WORDS).encode("utf-8", "surrogatepass")
    lines[number] = mark.join(cells)
    return b"".join(lines)


def random_table(random: Random) -> Any:
    """An Arrow table of a few rows, with columns of any type."""
    import datetime
    import decimal

    import pyarrow as pa

    rows = random.choice([0, 1, 3, 3, 30])
    day = datetime.datetime(1952, 3, 11, 4, 5, 6)
    columns = [
        lambda: pa.array([random.choice(["a", "b", "", None, "x" * 300]) for _ in range(rows)]),
        lambda: pa.array([random.choice([1, -1, 2**63 - 1, -(2**63), None]) for _ in range(rows)], pa.int64()),
        lambda: pa.array([random.choice([0, 2**64 - 1, None]) for _ in range(rows)], pa.uint64()),
        lambda: pa.array([random.choice([0.5, float("nan"), float("-inf"), 1e308, None]) for _ in range(rows)]),
        lambda: pa.array([random.choice([1.5, 65504.0, None]) for _ in range(rows)], pa.float32()),
        lambda: pa.array([random.choice([True, False, None]) for _ in range(rows)], pa.bool_()),
        lambda: pa.array([None] * rows, pa.null()),
        lambda: pa.array([random.choice([b"\xff\0", b"", None]) for _ in range(rows)], pa.binary()),
        lambda: pa.array([random.choice([decimal.Decimal("1.50"), None]) for _ in range(rows)], pa.decimal128(38, 2)),
        lambda: pa.array([random.choice([day.date(), None]) for _ in range(rows)], pa.date32()),
        lambda: pa.array([random.choice([-(2**31), 2**31 - 1, None]) for _ in range(rows)], pa.int32()).cast(pa.date32()),
        lambda: pa.array([random.choice([-(2**62), 2**62, None]) for _ in range(rows)], pa.int64()).cast(pa.timestamp("us", random.choice([None, "UTC"]))),
        lambda: pa.array([random.choice([day, None]) for _ in range(rows)], pa.timestamp("ns")),
        lambda: pa.array([random.choice([86399, None]) for _ in range(rows)], pa.time32("s")),
        lambda: pa.array([random.choice([5, None]) for _ in range(rows)], pa.duration("ms")),
        lambda: pa.array([random.choice([[], [1, None], None]) for _ in range(rows)], pa.list_(pa.int8())),
        lambda: pa.array([random.choice([[[1.5]], [], None]) for _ in range(rows)], pa.large_list(pa.list_(pa.float64()))),
        lambda: pa.array([random.choice([{"year": 1952, "month": None}, None, {"year": None, "month": None}]) for _ in range(rows)],
                         pa.struct([("year", pa.int32()), ("month", pa.int8())])),
        lambda: pa.array([random.choice([[("a", 1)], [("a", 1), ("a", 2)], None]) for _ in range(rows)], pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([random.choice(["a", "b", None]) for _ in range(rows)], pa.string()).dictionary_encode(),
    ]  # fmt: skip
    made = [random.choice(columns)() for _ in range(random.choice([0, 1, 2, 4, 8]))]
    names = [
        random.choice(["id", "name", "x", "", "a.b", "@id", "a[0]", "ü", "\x1b[2J", "year", f"c{number}"])
        for number in range(len(made))
    ]
    return pa.table(made, names)
