"""Mutation test by hand: small faults planted in every room, each of which the fast suite must catch.

    python tests/mutations.py                  all of them, in a copy of this tree
    python tests/mutations.py --only sidecar   those whose name has the word
    python tests/mutations.py --tree OLD       in a copy of another checkout, to compare two suites

A mutation that no test of its room catches is tried on the whole fast suite (`--whole`), and listed as survived
otherwise. Exit status 1 where one survives. The planted text must occur exactly once, so that a mutation which no
longer applies is noticed (`tests/test_mutations.py` checks that, without running any).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HANGS = 600  # seconds after which the tests of a mutation count as hanging
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".stage", "__pycache__", ".mypy_cache", ".hypothesis", "*.kbdisk")


@dataclass(frozen=True)
class Mutation:
    """A fault: in one file, some text replaced by another; and the test files that should notice."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


def mutation(name: str, file: str, before: str, after: str, *tests: str) -> Mutation:
    """A row of the table."""
    return Mutation(name, file, before, after, tests)


MUTATIONS = [
    # ------------------------------------------------------------ the ground
    mutation("a path's key with quotes is shown without escapes", "kbdisk/entity.py",
             r"""re.sub(r'(["\\])', r"\\\1", key)""", "key", "tests/test_entity.py"),
    mutation("a quantity with a unit but no value is no gap", "kbdisk/entity.py",
             "return value is None or (type(value) is Quantity and value.value is None)", "return value is None",
             "tests/test_entity.py", "tests/data/test_codec.py", "tests/completion/test_complete.py"),
    mutation("a value may be put where another stands", "kbdisk/entity.py",
             "    if blank and standing == \"\":\n        return True", "    if blank:\n        return True",
             "tests/test_entity.py", "tests/styles/test_styles.py", "tests/loaders/test_json.py", "tests/loaders/test_table.py"),
    mutation("1 and true are one label", "kbdisk/metrics.py",
             "return (isinstance(value, bool), value.id if isinstance(value, Link) else value)",
             "return (False, value.id if isinstance(value, Link) else value)", "tests/test_metrics.py"),
    # ------------------------------------------------------------ loaders
    mutation("a gzip file cut short is read as whole", "loaders/files.py",
             'raise LoadError(self.name, "the compressed file ends in the middle. Get all of it again.") from None',
             "return 0", "tests/loaders/test_source.py", "tests/loaders/test_rdf_file.py"),
    mutation("a zst file cut short is read as whole", "loaders/files.py",
             "if self.frame is not None:\n                    raise EOFError", "if False:\n                    raise EOFError",
             "tests/loaders/test_source.py"),
    mutation("thousands are parted after every two digits", "kbdisk/styles/numbers.py",
             "digits[n : n + 3] for n in", "digits[n : n + 2] for n in", "tests/loaders/test_table.py", "tests/styles/test_numbers.py"),
    mutation("a comma that is surely decimal is a point", "kbdisk/styles/numbers.py",
             'point = "," if "," in sure else "."', 'point = "."', "tests/styles/test_numbers.py"),
    mutation("an IRI is shortened by the shortest prefix", "loaders/rdf/turtle.py",
             "return -len(namespace[0]), namespace[1]", "return len(namespace[0]), namespace[1]",
             "tests/loaders/test_turtle_terms.py"),
    mutation("quotes within a literal are not escaped", "loaders/rdf/turtle.py",
             """_ESCAPED = re.compile(r'["\\\\\\x00-\\x1f\\x7f-\\x9f]')""", """_ESCAPED = re.compile(r'[\\\\\\x00-\\x1f\\x7f-\\x9f]')""",
             "tests/loaders/test_turtle_terms.py", "tests/loaders/test_rdf_writer.py"),
    mutation("a labelled node that looks anonymous is taken for one", "loaders/rdf/blank_nodes.py",
             " and raw not in self.labels", "", "tests/loaders/test_rdf_fold.py", "tests/loaders/test_rdf_writer.py", "tests/loaders/test_brackets.py", "tests/loaders/test_rdf_trees.py"),
    mutation("an endpoint that repeats a page is asked for ever", "loaders/sparql.py",
             "if page[-1] <= last:", "if False:", "tests/loaders/test_sparql.py"),
    mutation("statements of every rank are read from a Wikibase", "loaders/wikibase/json_dump.py",
             "for statement in _best_ranked(statements)", "for statement in _as_list(statements)", "tests/loaders/test_wikibase_json.py"),
    mutation("a Wikibase entity that is missing is an error", "loaders/wikibase/json_dump.py",
             'if "missing" in data:\n            return []', 'if False:\n            return []',
             "tests/loaders/test_wikibase_json.py"),
    mutation("a target takes its name before it is whole", "kbdisk/atomic.py",
             "if fault is None:", "if True:", "tests/loaders/test_target.py"),
    mutation("an existing target is replaced without --force", "loaders/files.py",
             "if mode is not None and stat.S_ISREG(mode) and not replace:", "if False:",
             "tests/loaders/test_target.py"),
    mutation("the source is no longer kept beside itself", "loaders/formats.py",
             "if is_source and not is_kept:", "if False:", "tests/loaders/test_target.py", "tests/test_cli.py"),
    # ------------------------------------------------------------ schemas
    mutation("a formula may be longer than is bounded", "schemas/formula.py",
             "if len(text) > MAX_LENGTH:", "if False:", "tests/schemas/test_formula.py"),
    mutation("a formula whose path lacks a value has one", "schemas/formula.py",
             "if any(values.get(path) is None for path in self.paths):", "if all(values.get(path) is None for path in self.paths) and self.paths:",
             "tests/schemas/test_formula.py"),
    mutation("money stands behind its number", "schemas/text/numerals.py",
             'return f"{sign}{unit}{self.gap}{number.removeprefix(sign)}"', 'return f"{number}{self.gap}{unit}"',
             "tests/schemas/test_composites.py", "tests/loaders/test_table.py", "tests/styles/test_styles.py"),
    mutation("day 00 is day 1", "schemas/text/dates.py",
             'precision = "day" if day == "00" else "month" if month == "00" else ""', 'precision = ""',
             "tests/schemas/test_dates.py"),
    mutation("99.95 % are shown as 100 %", "schemas/infer/decision.py",
             "if 0 < share < 0.001 or 0.999 < share < 1:", "if 0 < share < 0.001:", "tests/schemas/test_inference.py"),
    mutation("superclasses of SHACL are not read", "schemas/importers/shacl.py",
             "ancestry += [term for term in supers if term not in ancestry]", "pass", "tests/schemas/test_shacl.py"),
    # ------------------------------------------------------------ leaves, codec, network
    mutation("an atom is found only to the right of a number", "kbdisk/leaves/number/codec.py",
             "left = np.maximum(right - 1, 0)", "left = right", "tests/leaves/test_number_codec.py"),
    mutation("decoded numbers may leave the bounds", "kbdisk/leaves/number/codec.py",
             "written = [min(max(self._rounded(number), low), high) for number in self._unbounded(codes).tolist()]",
             "written = [self._rounded(number) for number in self._unbounded(codes).tolist()]", "tests/leaves/test_number_codec.py"),
    mutation("a step at a bound ends there", "kbdisk/leaves/number/codec.py",
             "np.where(x - low < half, OPEN_WIDTH, below)", "below", "tests/leaves/test_number_codec.py", "tests/leaves/test_number_beliefs.py"),
    mutation("the mean of a mixture forgets the weights", "kbdisk/leaves/number/densities.py",
             "return (self.logits.double().softmax(1) * self.mean.double()).sum(1)", "return self.mean.double().mean(1)",
             "tests/leaves/test_number_beliefs.py", "tests/leaves"),
    mutation("a density is not divided by sigma", "kbdisk/leaves/number/densities.py",
             "lambda t, std: _phi(t) / std)", "lambda t, std: _phi(t))", "tests/leaves/test_number_beliefs.py"),
    mutation("sets of more members than have a probability of their own are certain", "kbdisk/leaves/set.py",
             "tail = (larger - (size - largest) * math.log(2) - torch.log1p(-(0.5**larger_sizes))).to(log_probs.dtype)",
             "tail = larger.expand(-1, max_size + 1).to(log_probs.dtype)",
             "tests/leaves/test_sets.py"),
    mutation("values come over links that lead to the entity itself", "kbdisk/data/links.py",
             "(target != links.node[row]) & (arrays.class_of[target] >= 0)", "arrays.class_of[target] >= 0", "tests/data/test_links.py"),
    mutation("a value that points back to its entity is evidence", "kbdisk/data/links.py",
             "if pattern(over.read) in self.graph.linking[target_class]:", "if False:", "tests/data/test_links.py"),
    mutation("an inverse link does not tie two groups", "kbdisk/training/split.py",
             "np.isin(target * count + source, there)", "target == source",
             "tests/training/test_splits.py"),
    mutation("entities are copies by the hash of their values", "kbdisk/training/split.py",
             " and _compared_values(earlier, names) == values:", ":", "tests/training/test_splits.py"),
    # ------------------------------------------------------------ diffusion
    mutation("hidden properties weigh D / (M + 1)", "kbdisk/model/masking.py",
             "    M = (1 + (_uniform(D, generator) * D).long()).clamp(max=D)  # a draw may be rounded up to 1, and D may be 0\n    return M, D / M.clamp(min=1)",
             "    M = (1 + (_uniform(D, generator) * D).long()).clamp(max=D)\n    return M, D / (M + 1)", "tests/model/test_masking.py", "tests/model/test_diffusion.py"),
    mutation("a hidden link's evidence stays visible", "kbdisk/model/masking.py",
             "return Hidden(batch.seen(batch.known & ~asked), weight > 0, weight)",
             "return Hidden(batch.known & ~asked, weight > 0, weight)", "tests/model/test_masking.py"),
    mutation("absent properties count as recorded", "kbdisk/model/diffusion.py",
             "(~absent).to(logits.dtype), weight", "absent.to(logits.dtype), weight", "tests/model/test_diffusion.py", "tests/model/test_network.py"),
    mutation("what is drawn of a link's evidence is that of the true link", "kbdisk/model/diffusion.py",
             "visible = part.known & ~over_asked_links[places] & ", "visible = part.known & ", "tests/model/test_diffusion.py", "tests/model", "tests/test_sampling.py"),
    mutation("the exact likelihood forgets how many orders there are", "kbdisk/model/likelihood.py",
             ".logsumexp(1) - math.log(len(last))", ".logsumexp(1)", "tests/model/test_likelihood.py"),
    # ------------------------------------------------------------ experts
    mutation("the mixture weights ignore the prior", "kbdisk/experts/weights.py",
             ".clamp(min=EPSILON)).sum(0) + prior", ".clamp(min=EPSILON)).sum(0)", "tests/experts/test_weights.py"),
    mutation("an expert has weight without being proven", "kbdisk/experts/weights.py",
             "/ math.sqrt(count) > required_errors", "/ math.sqrt(count) > -1e9", "tests/experts/test_weights.py"),
    mutation("an entity is its own nearest neighbour", "kbdisk/experts/knn.py",
             "excluded = is_itself | ", "excluded = ", "tests/experts/test_knn.py"),
    mutation("a Gaussian process has no noise", "kbdisk/experts/gaussian_process.py",
             "noise_of(kernel, x) * torch.eye(", "0 * noise_of(kernel, x) * torch.eye(", "tests/experts/test_gaussian_process_regression.py"),
    mutation("an ensemble's presence is a mean of logits", "kbdisk/experts/base.py",
             "logits.sigmoid().mean(0).logit()", "logits.mean(0)", "tests/experts/test_ensemble.py"),
    # ------------------------------------------------------------ training and the store
    mutation("the moving average is not corrected at the start", "kbdisk/training/optimizer.py",
             "smoothing = min(self.smoothing, step / (step + 9))", "smoothing = self.smoothing", "tests/training/test_ema.py"),
    mutation("the learning rate does not warm up", "kbdisk/training/schedule.py",
             "return (step + 1) / warmup", "return 1.0", "tests/training/test_schedule.py", "tests/training/test_loop.py"),
    mutation("10m is ten seconds", "kbdisk/training/schedule.py",
             '"m": 60, "min": 60', '"m": 1, "min": 60', "tests/test_api.py"),
    mutation("the last step is not evaluated", "kbdisk/training/schedule.py",
             "return step * evaluations // total > (step - 1) * evaluations // total",
             "return step < total and step * evaluations // total > (step - 1) * evaluations // total", "tests/training/test_schedule.py", "tests/training/test_loop.py"),
    # ------------------------------------------------------------ completion, sampling, evaluation
    mutation("a number is the model's, however much it is distrusted", "kbdisk/completion/shrinkage.py",
             "self.weights[slot] * (belief.values(predicted) - self.constants[slot])",
             "(belief.values(predicted) - self.constants[slot])",
             "tests/completion"),
    mutation("what an earlier completion wrote is a gap again", "kbdisk/completion/gaps.py",
             "if made and any(are_nested(path, filled) for filled in made):", "if False:", "tests/completion", "tests/test_cli_complete.py"),
    mutation("a retracted gap comes back as another one", "kbdisk/completion/retract.py",
             'load_json(row.line).get("was")', "None", "tests/completion/test_retract.py"),
    mutation("a retracted block leaves its line end", "loaders/rdf/blocks.py",
             'text = _LINE_END.sub(b"", text, count=1)', "pass", "tests/completion/test_retract.py"),
    mutation("a retracted value takes a container along that was there", "loaders/json/edit.py",
             "if is_empty and is_made:", "if is_empty:", "tests/completion/test_retract.py"),
    mutation("a retracted table keeps no sidecar while it has values", "kbdisk/completion/retract.py",
             "if format_row(kb.format).has_blocks:\n            _write_text", "if not format_row(kb.format).has_blocks:\n            _write_text",
             "tests/crash/test_retract_every_call.py"),
    mutation("a rejected value of a review is proposed again", "kbdisk/completion/answers.py",
             "raise ValueError(REJECTED_BEFORE)", "pass", "tests/completion/test_review.py"),
    mutation("a review is applied to a place that has changed", "kbdisk/completion/apply.py",
             "fingerprint_at(entity, decided.path) != decided.row.fingerprint", "False", "tests/completion/test_review.py"),
    mutation("a corrected value of a review is not learnt from", "kbdisk/completion/sidecar.py",
             'row.get("reviewed") == "corrected"', "False", "tests/completion/test_review.py"),
    mutation("an interval is rounded to be narrower than it was", "kbdisk/completion/provenance.py",
             "quantize(step, ROUND_FLOOR)", "quantize(step, ROUND_CEILING)", "tests/completion"),
    mutation("a key of two labels is filled twice", "kbdisk/completion/unique_pairs.py",
             "if label != UNKNOWN and partner_label != UNKNOWN:", "if False:", "tests/completion"),
    mutation("a pair that repeats is a key", "kbdisk/completion/unique_pairs.py",
             "return len(np.unique(pairs)) < len(pairs)", "return False", "tests/completion"),
    mutation("texts are drawn before the rest", "kbdisk/sampling.py",
             "last = [ask & self._last for ask in asks]", "last = [set() for ask in asks]", "tests/test_sampling.py"),
    mutation("an evaluation sees what it asks for", "kbdisk/evaluation/evaluate.py",
             "visible = self.batch.known & ~self.hidden", "visible = self.batch.known.clone()", "tests/evaluation"),
    mutation("the constant of numbers is the fifth percentile", "kbdisk/metrics.py",
             "return Constant(middle, float(numbers.mean()), (low, high))", "return Constant(low, float(numbers.mean()), (low, high))",
             "tests/test_metrics.py", "tests/evaluation"),
    mutation("a shard that other options have made is skipped", "kbdisk/api/bulk.py",
             'elif changed := _differences(record["settings"], self.settings):', "elif changed := []:", "tests/test_bulk.py"),
    mutation("a target that somebody has edited counts as made", "kbdisk/api/bulk.py",
             "elif not _is_written(record, shard):", "elif False:", "tests/test_bulk.py"),
    mutation("all processes complete the same shards", "kbdisk/training/distributed.py",
             "return items[self.rank :: self.size]", "return items", "tests/test_bulk.py"),
    # ------------------------------------------------------------ several processes
    mutation("gradients are those of one process alone", "kbdisk/training/loop.py",
             "        self.processes.add(flat)\n", "", "tests/training/test_distributed.py"),
    mutation("a piece counts by its own entities", "kbdisk/model/diffusion.py",
             "recorded = _presence(batch, hidden, beliefs) / size", "recorded = _presence(batch, hidden, beliefs) / max(batch.size, 1)", "tests/training/test_distributed.py"),
    mutation("processes may have other data", "kbdisk/training/train.py",
             "if other != first:", "if False:", "tests/training/test_distributed.py"),
    # ------------------------------------------------------------ the command line
    mutation("a user's mistake is exit status 1", "kbdisk/cli/main.py",
             "    return 2\n\n\ndef _end_unread", "    return 1\n\n\ndef _end_unread", "tests/test_cli.py"),
    mutation("a value without a place is no failure", "kbdisk/cli/write.py",
             "context.exit(1 if report.unwritable or kb.skipped else 0)", "context.exit(0)", "tests/test_cli.py"),
    # ------------------------------------------------------------ what a user may rely on
    mutation("a part is renamed without being synced", "kbdisk/atomic.py",
             "        os.fsync(file.fileno())\n", "", "tests/crash/test_every_call.py"),
    mutation("a folder is not synced after a rename", "kbdisk/atomic.py",
             "                sync_folder(place.parent)\n", "", "tests/crash/test_every_call.py"),
    mutation("a target is overwritten by a copy of the part", "kbdisk/atomic.py",
             "os.replace(part, place)", "shutil.copyfile(part, place)", "tests/crash/test_every_call.py"),
    mutation("a lock that another process holds is taken", "kbdisk/locks.py",
             "        if is_locked(descriptor) is False:", "        if is_locked(descriptor) is None:", "tests/loaders/test_locks.py",
             "tests/crash/test_writers_at_once.py"),
    mutation("a source that changed since it was read is written back", "loaders/files.py",
             "if self._stamp is not None and not self._stamp.is_of(self._stamped()):", "if False:", "tests/loaders/test_locks.py"),
    mutation("a file may unpack to anything", "loaders/files.py",
             "if self.given > self.limit:", "if False:", "tests/loaders/test_limits.py"),
    mutation("an endpoint may send on to any host", "loaders/http.py",
             "if not self.bounds.redirects and (", "if False and (", "tests/loaders/test_limits.py"),
    mutation("an answer may take any time", "loaders/http.py",
             "        self.timer.start()\n", "", "tests/loaders/test_limits.py"),
    mutation("escape sequences in data reach the terminal", "kbdisk/printable.py",
             "return _UNPRINTABLE.sub(_escaped, text)", "return text", "tests/test_terminal.py"),
    mutation("blank nodes within triple terms keep their old names", "loaders/rdf/blank_nodes.py",
             "return Triple(renamed(term.subject, name), term.predicate, renamed(term.object, name))", "return term",
             "tests/loaders/test_triple_terms.py"),
    mutation("a model may fill in a formula", "loaders/values/formulas.py",
             "return text[:1] if text[:1] in _STARTS and _PLAIN.fullmatch(text) is None else \"\"", "return \"\"", "tests/loaders/test_formulas.py"),
    mutation("a date is split in cubic time", "schemas/composites/date.py",
             r'NUMERIC_DATE = re.compile(rf"\s*+(\d{{1,4}}){_SEPARATOR}(\d{{1,4}}){_SEPARATOR}(\d{{1,4}})\s*+")',
             r'NUMERIC_DATE = re.compile(r"\s*(\d{1,4})\s*[-/. ]\s*(\d{1,4})\s*[-/. ]\s*(\d{1,4})\s*")', "tests/fuzz/test_growth.py"),
]  # fmt: skip


def problems(tree: Path) -> list[str]:
    """The mutations whose text does not occur exactly once in a tree."""
    found = []
    for each in MUTATIONS:
        file = tree / each.file
        count = file.read_text(encoding="utf-8").count(each.before) if file.is_file() else 0
        if count != 1:
            found.append(f"{each.name}: expected its text once in {each.file}, got it {count} times")
    return found


def staged(copy: Path) -> Path:
    """A folder for PYTHONPATH in which the copy's three folders are one package."""
    stage = copy / ".stage"
    shutil.rmtree(stage, ignore_errors=True)
    package = stage / "kbdisk"
    package.mkdir(parents=True)
    for inside in (copy / "kbdisk").iterdir():
        (package / inside.name).symlink_to(inside)
    for name in ("loaders", "schemas"):
        (package / name).symlink_to(copy / name)
    return stage


def failed(copy: Path, stage: Path, tests: list[str]) -> str:
    """The first test that fails in the copy; empty where none does."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--no-header",
        "--timeout",
        "60",
        *tests,
    ]
    # PYTHONSAFEPATH: else the copy's own folder `kbdisk`, without loaders and schemas, would come before the stage.
    environment = {**os.environ, "PYTHONPATH": str(stage), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+") as output:  # not a pipe, which a process that a test left behind would keep open
        done = subprocess.Popen(
            command, cwd=copy, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status = done.wait(HANGS)
        except subprocess.TimeoutExpired:
            return f"hangs for more than {HANGS} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)
            done.wait()
        output.seek(0)
        lines = [line for line in output if line.startswith(("FAILED", "ERROR"))]
    if status == 0:
        return ""
    return lines[0].strip().split(" - ")[0] if lines else f"pytest ended with status {status}"


def main() -> int:
    """Run the mutations and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="run the mutations whose name has this text")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to copy")
    parser.add_argument("--whole", action="store_true", help="try survivors on the whole fast suite")
    options = parser.parse_args()
    survived, tried = [], 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "tree")
        shutil.copytree(options.tree, copy, ignore=NOT_COPIED)
        stage = staged(copy)
        for each in MUTATIONS:
            if options.only not in each.name:
                continue
            file = copy / each.file
            sound = file.read_text(encoding="utf-8")
            if sound.count(each.before) != 1:
                print(f"not here   {each.name}", flush=True)
                continue
            file.write_text(sound.replace(each.before, each.after), encoding="utf-8")
            start = time.monotonic()
            caught = failed(copy, stage, [name for name in each.tests if (copy / name).exists()])
            if not caught and options.whole:
                caught = failed(copy, stage, [])
            file.write_text(sound, encoding="utf-8")
            tried += 1
            survived += [] if caught else [each.name]
            print(
                f"{'caught' if caught else 'SURVIVED':<10} {each.name} ({time.monotonic() - start:.0f} s) {caught}",
                flush=True,
            )
    print(f"{tried} mutations, {tried - len(survived)} caught, {len(survived)} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
