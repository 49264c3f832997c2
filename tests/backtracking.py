"""A regular expression run by a backtracking machine that counts its steps, and texts that make such a machine work hard.

The machine explores what CPython's `re` explores, in the same order, without its shortcuts: where its steps grow in
proportion to the text, those of `re` do, too. A character is compared by `re` itself, so classes and flags mean the same.

    SINGLE pattern   one character, or a place such as \\b     LOOP body, exit   again, unless the last round was empty
    SPLIT a, b       try a, then b                            ATOMIC program    its first match alone
    SAVE slot        where a group begins or ends             LOOK program      ahead or behind, or not
    BACK group       the text of a group                      MATCH             the end
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import zip_longest
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

MAX_STEPS = 1 << 18  # for a run of 80
LONG = 6  # a repeat of at most so many rounds is no run
REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
ONE_CHARACTER = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN)
USUAL_CHARACTERS = " \t\n\rab_AZ09.,;:'\"`!?<>()[]{}/\\|@#$%^&*+-=~\x00\x7f\u00a0\u00e9\u2028\u0661\ud800"
ALL = ("sub", "subn", "split", "finditer", "findall")


class TooManyStepsError(Exception):
    """The work is beyond the bound."""


class Machine:
    """A pattern as a program."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self.pattern = pattern
        self.tree = _parser.parse(pattern.pattern, pattern.flags)
        self.groups = 2 * self.tree.state.groups
        self.slots = self.groups
        self.all_taken = 0
        self.program = [*self._sequence(self.tree, pattern.flags), ("MATCH",)]

    # ------------------------------------------------------------ the program

    def _sequence(self, items: Any, flags: int, at: int = 0) -> list[tuple[Any, ...]]:
        program: list[tuple[Any, ...]] = []
        for op, argument in items:
            program += self._item(op, argument, flags, at + len(program))
        return program

    def _item(self, op: Any, argument: Any, flags: int, at: int) -> list[tuple[Any, ...]]:
        if op in ONE_CHARACTER:
            return [("SINGLE", self._compiled(op, argument, flags), 1, {})]
        if op is _constants.AT:
            return [("SINGLE", self._compiled(op, argument, flags), 0, {})]
        if op is _constants.SUBPATTERN:
            group, more, less, items = argument
            inner = (flags | more) & ~less
            if group is None:
                return self._sequence(items, inner, at)
            return [("SAVE", 2 * group), *self._sequence(items, inner, at + 1), ("SAVE", 2 * group + 1)]
        if op is _constants.BRANCH:
            return self._branch(argument[1], flags, at)
        if op in REPEATS:
            return self._repeat(op, *argument, flags, at)
        if op is _constants.ATOMIC_GROUP:
            return [("ATOMIC", [*self._sequence(argument, flags), ("MATCH",)])]
        if op in (_constants.ASSERT, _constants.ASSERT_NOT):
            way, items = argument
            back = items.getwidth()[1] if way < 0 else 0
            return [("LOOK", [*self._sequence(items, flags), ("MATCH",)], op is _constants.ASSERT, back)]
        if op is _constants.GROUPREF:
            return [("BACK", argument)]
        raise NotImplementedError(op)

    def _branch(self, ways: list[Any], flags: int, at: int) -> list[tuple[Any, ...]]:
        bodies, ends = [], []
        for way in ways:
            ends.append(at)
            body = self._sequence(way, flags, at + 1)
            bodies.append(body)
            at += len(body) + 2
        program: list[tuple[Any, ...]] = []
        for start, body in zip(ends, bodies, strict=True):
            last = start == ends[-1]
            program += [("SPLIT", start + 1, None if last else start + len(body) + 2), *body, ("JUMP", at)]
        return program

    def _repeat(self, op: Any, least: int, most: Any, items: Any, flags: int, at: int) -> list[tuple[Any, ...]]:
        if op is _constants.POSSESSIVE_REPEAT:
            inner = self._repeat(_constants.MAX_REPEAT, least, most, items, flags, 0)
            return [("ATOMIC", [*inner, ("MATCH",)])]
        greedy = op is _constants.MAX_REPEAT
        program: list[tuple[Any, ...]] = []
        for _ in range(least):
            program += self._sequence(items, flags, at + len(program))
        if most is _constants.MAXREPEAT:
            slot, self.slots = self.slots, self.slots + 1
            head = at + len(program)
            body = self._sequence(items, flags, head + 1)
            program += [("LOOP", head + 1, head + len(body) + 2, slot, greedy), *body, ("JUMP", head)]
            return program
        places = []
        for _ in range(most - least):
            places.append(len(program))
            program.append(())
            program += self._sequence(items, flags, at + len(program))
        end = at + len(program)
        for place in places:
            ways = (at + place + 1, end)
            program[place] = ("SPLIT", *(ways if greedy else ways[::-1]))
        return program

    def _compiled(self, op: Any, argument: Any, flags: int) -> re.Pattern[Any]:
        state = _parser.State()
        state.flags = flags
        return _compiler.compile(_parser.SubPattern(state, [(op, argument)]))

    # ------------------------------------------------------------ its steps

    def steps(self, method: str, text: Any, bound: int) -> int:
        """The steps that a method of the pattern takes on a text; TooManyStepsError beyond the bound."""
        self.taken, self.bound, self.text = 0, bound, text
        try:
            self._go(method, text)
        finally:
            self.all_taken += self.taken
        return self.taken

    def _go(self, method: str, text: Any) -> None:
        if method in ("match", "fullmatch"):
            self._run(self.program, 0, method == "fullmatch")
            return
        place = 0
        while place <= len(text):
            end = self._run(self.program, place, False)
            if end is not None and method not in ALL:
                break
            place = max(end or 0, place + 1)

    def _run(self, program: list[tuple[Any, ...]], start: int, full: bool, slots: Any = None) -> int | None:
        text = self.text
        stack = [(0, start, slots or (-1,) * self.slots)]
        while stack:
            at, place, slots = stack.pop()
            while True:
                self.taken += 1
                if self.taken > self.bound:
                    raise TooManyStepsError
                step = program[at]
                at += 1
                match step[0]:
                    case "SINGLE":
                        if not self._single(step, place):
                            break
                        place += step[2]
                    case "SPLIT":
                        if step[2] is not None:
                            stack.append((step[2], place, slots))
                        at = step[1]
                    case "LOOP":
                        _, body, end, slot, greedy = step
                        if slots[slot] == place:
                            at = end
                        else:
                            marked = (*slots[:slot], place, *slots[slot + 1 :])
                            stack.append((end, place, slots) if greedy else (body, place, marked))
                            at, slots = (body, marked) if greedy else (end, slots)
                    case "JUMP":
                        at = step[1]
                    case "SAVE":
                        slots = (*slots[: step[1]], place, *slots[step[1] + 1 :])
                    case "BACK":
                        said = text[slots[2 * step[1]] : slots[2 * step[1] + 1]]
                        self.taken += len(said)
                        if slots[2 * step[1] + 1] < 0 or text[place : place + len(said)] != said:
                            break
                        place += len(said)
                    case "ATOMIC":
                        end = self._run(step[1], place, False, slots)
                        if end is None:
                            break
                        place, slots = end, self.after
                    case "LOOK":
                        here = place - step[3]
                        seen = here >= 0 and self._run(step[1], here, False, slots) is not None
                        if seen is not step[2]:
                            break
                        if seen:
                            slots = self.after
                    case "MATCH":
                        if full and place != len(text):
                            break
                        self.after = slots
                        return place
        return None

    def _single(self, step: tuple[Any, ...], place: int) -> bool:
        _, pattern, width, known = step
        if not width:
            return pattern.match(self.text, place) is not None
        character = self.text[place : place + 1]
        if not character:
            return False
        if character not in known:
            known[character] = pattern.match(character) is not None
        return known[character]

    def agrees(self, text: Any) -> bool:
        """Whether it matches as `re` does."""
        self.taken, self.bound, self.text = 0, 1 << 20, text
        match = self.pattern.match(text)
        return self._run(self.program, 0, False) == (match and match.end())


# ---------------------------------------------------------------- texts


class Attack:
    """Texts against a pattern: what leads to each of its repeats, a run of n units, and what the run must not end with."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self.is_bytes = isinstance(pattern.pattern, bytes)
        self.machine = Machine(pattern)
        self.characters = self._characters()
        self.runs = dict.fromkeys(("", unit) for unit in self.characters)
        self._walk(self.machine.tree, "", {})

    def texts(self) -> Iterator[tuple[str, str, str]]:
        """What stands before the run, a unit of it, what stands behind; all kinds of text in turn."""
        chars = self.characters
        runs = [(*run, "") for run in self.runs]
        endings = [(*run, char) for run in self.runs for char in chars if char != run[1]]
        pairs = [("", one + other, "") for one in chars for other in chars if one != other]
        for texts in (runs, endings, pairs):
            random.Random(0).shuffle(texts)
        for turn in zip_longest(runs, endings, pairs):
            yield from filter(None, turn)

    def text(self, before: str, unit: str, behind: str, length: int) -> Any:
        """The text with a run of so many units."""
        return self._own(before + unit * length + behind)

    def _own(self, text: str) -> Any:
        return text.encode("latin-1") if self.is_bytes else text

    def _characters(self) -> list[str]:
        """One character of each kind that the pattern tells apart."""
        singles = [step for step in _steps(self.machine.program) if step[0] == "SINGLE" and step[2]]
        literals = {*_literals(self.machine.tree)}
        kinds: dict[tuple[bool, ...], str] = {}
        for char in [*USUAL_CHARACTERS, *sorted(literals)]:
            if not self.is_bytes or char < "\u0100":
                kinds.setdefault(tuple(step[1].match(self._own(char)) is not None for step in singles), char)
        return list(kinds.values())

    def _walk(self, items: Any, before: str, groups: dict[int, str]) -> str:
        """Note each repeat below, and return the shortest text of all of it, behind `before`."""
        text = ""
        for op, argument in items:
            text += self._entered(op, argument, before + text, groups)
        return text

    def _entered(self, op: Any, argument: Any, before: str, groups: dict[int, str]) -> str:
        if op in ONE_CHARACTER:
            return self._one(op, argument)
        if op is _constants.SUBPATTERN:
            text = self._walk(argument[3], before, groups)
            groups[argument[0]] = text
            return text
        if op is _constants.BRANCH:
            return min((self._walk(way, before, groups) for way in argument[1]), key=len)
        if op in REPEATS:
            least, most, inner = argument
            once = self._walk(inner, before, groups)
            if most > LONG:
                self.runs |= dict.fromkeys(
                    (before, unit) for unit in [*self.characters, once, *self._ways(inner)] if unit
                )
                if before:
                    self.runs[("", before)] = None
            return once * least
        if op is _constants.ATOMIC_GROUP:
            return self._walk(argument, before, groups)
        return groups.get(argument, "") if op is _constants.GROUPREF else ""

    def _ways(self, items: Any) -> list[str]:
        """The text of each way through what is repeated, with what is optional taken once."""
        ways = [""]
        for op, argument in items:
            if op in ONE_CHARACTER:
                more = [self._one(op, argument)]
            elif op is _constants.SUBPATTERN:
                more = self._ways(argument[3])
            elif op is _constants.BRANCH:
                more = [text for way in argument[1] for text in self._ways(way)]
            elif op in REPEATS:
                more = [text * max(1, argument[0]) for text in self._ways(argument[2])]
            elif op is _constants.ATOMIC_GROUP:
                more = self._ways(argument)
            else:
                continue
            ways = [way + text for way in ways for text in more][:12]
        return ways

    def _one(self, op: Any, argument: Any) -> str:
        state = _parser.State()
        state.flags = self.machine.pattern.flags
        own = _compiler.compile(_parser.SubPattern(state, [(op, argument)]))
        candidates = (
            [chr(argument)]
            if op is _constants.LITERAL
            else [*self.characters, *USUAL_CHARACTERS, *_literals([(op, argument)])]
        )
        for char in candidates:
            if (not self.is_bytes or char < "\u0100") and own.match(self._own(char)):
                return char
        raise NotImplementedError(f"no character for {op} {argument}")


def _steps(program: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for step in program:
        yield step
        if step[0] in ("ATOMIC", "LOOK"):
            yield from _steps(step[1])


def _literals(items: Any) -> Iterator[str]:
    """Every character that stands in a tree."""
    for op, argument in items:
        if op in (_constants.LITERAL, _constants.NOT_LITERAL):
            yield chr(argument)
        elif op is _constants.RANGE:
            yield from map(chr, argument)
        elif op is _constants.IN:
            yield from _literals([entry for entry in argument if entry[0] is not _constants.NEGATE])
        elif op is _constants.SUBPATTERN:
            yield from _literals(argument[3])
        elif op is _constants.BRANCH:
            for way in argument[1]:
                yield from _literals(way)
        elif op in REPEATS:
            yield from _literals(argument[2])
        elif op is _constants.ATOMIC_GROUP:
            yield from _literals(argument)
        elif op in (_constants.ASSERT, _constants.ASSERT_NOT):
            yield from _literals(argument[1])


def superlinear(pattern: re.Pattern[Any], method: str, budget: float) -> tuple[str, str, str] | None:
    """A text whose doubling more than triples the steps of a method: what stands before a run, its unit, what stands behind.

    Texts are tried until all are, or so many steps have been taken.
    """
    attack = Attack(pattern)
    for text in attack.texts():
        if _grows(attack, method, text, 12, 2.2) and _grows(attack, method, text, 80, 3):
            return text
        if attack.machine.all_taken > budget:
            break
    return None


def _grows(attack: Attack, method: str, text: tuple[str, str, str], length: int, times: float) -> bool:
    """Whether a run twice as long takes more than so many times the steps. A short one shows it a little, and is fast."""
    short, long = attack.text(*text, length), attack.text(*text, 2 * length)
    try:
        attack.machine.steps(method, long, 30 + int(times * attack.machine.steps(method, short, MAX_STEPS)))
    except TooManyStepsError:
        return True
    return False
