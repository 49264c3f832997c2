"""Actors and directors with their skills, some of which lack; in Turtle with classes, and as JSON, CSV and N-Triples."""

from __future__ import annotations

import json
import random

E = "http://example.org/"
SKILLS = {"Actor": ("acting", "singing", "dancing"), "Director": ("directing", "writing", "editing")}
COUNT, CITIES = 60, 24
LACKING_CLASS = {3: ("Person",), 17: ("Person",), 8: ()}  # person -> the classes that are stated
LACKING_SKILL = sorted({*range(5, COUNT, 2)} - LACKING_CLASS.keys())  # persons of whom one skill is not stated


def kind_of(number: int) -> str:
    """Whether a person acts or directs."""
    return "Actor" if random.Random(number).random() < 0.5 else "Director"


def skills_of(number: int) -> tuple[str, ...]:
    """The skills that are stated."""
    skills = SKILLS[kind_of(number)]
    return tuple(skill for skill in skills if number not in LACKING_SKILL or skill != missing_skill(number))


def missing_skill(number: int) -> str:
    """The skill that a person with two lacks."""
    return SKILLS[kind_of(number)][number // 3 % 3]


def turtle() -> str:
    """Persons with classes, and cities; of a class no entity has its superclass alone."""
    lines = [f"@prefix : <{E}> .", "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> ."]
    lines += [":Actor rdfs:subClassOf :Person .", ":Director rdfs:subClassOf :Person ."]
    for number in range(COUNT):
        classes = LACKING_CLASS.get(number, ("Person", kind_of(number)))
        statements = [*(f"a :{name}" for name in classes), *(f":skill :{skill}" for skill in skills_of(number))]
        statements += [f":born {1940 + number % 50}", f':side "{kind_of(number).lower()}"']
        lines.append(f":p{number} " + " ;\n  ".join(statements) + " .")
    for number in range(CITIES):
        classes = [] if number == 20 else ["a :City"]
        statements = [*classes, f":population {1000 * number + 900}", f":twin :c{(number + 1) % CITIES}"]
        lines.append(f":c{number} " + " ; ".join(statements) + " .")
    return "\n".join(lines) + "\n"


def records() -> list[dict[str, object]]:
    """The persons as records."""
    return [
        {"id": f"p{number}", "side": kind_of(number), "skills": list(skills_of(number)), "born": 1940 + number % 50}
        for number in range(COUNT)
    ]


def json_lines() -> str:
    """The persons as JSON Lines."""
    return "".join(json.dumps(record) + "\n" for record in records())


def csv() -> str:
    """The persons as a table with a column for each place of the list."""
    rows = ["id,side,skills[0],skills[1],skills[2],born"]
    for record in records():
        skills = [*record["skills"], "", ""][:3]
        rows.append(",".join([str(record["id"]), str(record["side"]), *skills, str(record["born"])]))
    return "\n".join(rows) + "\n"


def n_triples() -> str:
    """The persons as N-Triples."""
    lines = []
    for record in records():
        head = f"<{E}{record['id']}>"
        lines += [f"{head} <{E}skill> <{E}{skill}> ." for skill in record["skills"]]
        lines.append(f'{head} <{E}side> "{record["side"]}" .')
    return "\n".join(lines) + "\n"
