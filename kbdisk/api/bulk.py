"""Bulk completion: many files (shards), each completed by itself with one trained model, into a folder.

    summary = kbdisk.complete_shards("shards/*.jsonl.zst", "done/", model="phones.kbdisk")
    summary.failed                                 the shards that could not be completed, each with its problem

A shard is a file, and its target in the folder has the same name and format. Targets are written all or not at all. The
folder has a record of each shard, by which a killed job goes on with what is missing:

    done/NAME, done/NAME.provenance.jsonl          a target and its sidecar
    done/.kbdisk-job/NAME.json                     its record: settings, source and target, and the counts of its summary
    done/.kbdisk-job/job.json                      the time of the job, which all of its sidecars have, and its settings

A record is written before the target, without a result, and again after it. So a target without a result is one that a
killed job was writing, and is written anew.

Engines distribute the shards. `local` completes them in this process; where the environment has RANK and WORLD_SIZE, as under
torchrun, it completes every WORLD_SIZE-th shard. `ray` has actors of Ray complete them. Each
shard has the same bytes by whichever engine, as nothing is carried over from one shard to the next.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from kbdisk.api.complete import Completed, ModelledSource, choices_of
from kbdisk.api.model import CountCallback, Model
from kbdisk.api.source import StrPath
from kbdisk.api.stores import FileStamp, hash_file, is_url, store_of
from kbdisk.api.train import open as open_model
from kbdisk.completion.answers import REVIEWED
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.provenance import fingerprint
from kbdisk.entity import Path
from kbdisk.errors import (
    ConfigError,
    KBDiskError,
    KBDiskWarning,
    LoadError,
    WriteError,
    messages_for_shell,
    option_name,
    setting,
)
from kbdisk.jsonio import dump_json, load_json
from kbdisk.loaders import load
from kbdisk.loaders.files import BEFORE, SIDECAR, refuse_long_names, refuse_odd, sidecar_of
from kbdisk.loaders.formats import WritePlan, target_format
from kbdisk.loaders.kb import MISSING
from kbdisk.schemas.importers import read_constraints
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.numerals import of_any_length
from kbdisk.store.files import Files
from kbdisk.training.distributed import Processes, device_here

RECORDS = ".kbdisk-job"  # the folder of the records, in that of the targets
JOB = "job.json"
FILES_BESIDE = (SIDECAR, REVIEWED, BEFORE)  # what kbdisk writes beside a file ends so, and is no shard
UNRECORDED = ("max_size", "redirects", "progress")  # options of reading that change no value
MAX_RETRIES = 3  # of a shard whose worker was lost
RAY_OBJECT_STORE = 100 << 20  # bytes: results are small
DONE, SKIPPED, FAILED = "done", "skipped", "failed"


# ---------------------------------------------------------------- results


@dataclass(frozen=True)
class ShardResult:
    """The completion of one shard."""

    source: str
    target: str
    status: str  # done; skipped: it was done before; failed
    problem: str = ""  # of a failed one
    entities: int = 0
    missing: int = 0  # gaps
    filled: int = 0
    members: int = 0  # added to sets with some
    unread: int = 0  # faults that were skipped in reading
    unwritable: int = 0  # given values that have no place in the target
    is_unlike: bool = False  # whether something is unlike the training data
    warnings: tuple[str, ...] = ()  # of a worker elsewhere


COUNTS = ("entities", "missing", "filled", "members", "unread", "unwritable", "is_unlike")  # that a record keeps


@dataclass(frozen=True)
class BulkSummary:
    """The completions of all shards, in their order."""

    shards: tuple[ShardResult, ...]
    rank: int = 0  # of this process; all processes of torchrun have the results of all, and 0 reports them

    def __repr__(self) -> str:
        """How many shards were done, skipped and failed."""
        counts = ", ".join(f"{len(self.with_status(status)):,} {status}" for status in (DONE, SKIPPED, FAILED))
        return f"<BulkSummary: {counts}>"

    def with_status(self, status: str) -> list[ShardResult]:
        """The shards with a status: done, skipped or failed."""
        return [result for result in self.shards if result.status == status]

    @property
    def done(self) -> list[ShardResult]:
        """The shards that were completed."""
        return self.with_status(DONE)

    @property
    def skipped(self) -> list[ShardResult]:
        """The shards that had been completed before."""
        return self.with_status(SKIPPED)

    @property
    def failed(self) -> list[ShardResult]:
        """The shards that could not be completed."""
        return self.with_status(FAILED)

    def total(self, count: str) -> int:
        """The sum of a count, such as entities, missing or filled, over all shards."""
        return sum(getattr(result, count) for result in self.shards)

    def to_json(self) -> dict[str, Any]:
        """The summary as plain data."""
        return {
            **{status: len(self.with_status(status)) for status in (DONE, SKIPPED, FAILED)},
            **{name: self.total(name) for name in COUNTS if name != "is_unlike"},
            "unlike": self.total("is_unlike"),
            "shards": [
                {name: value for name, value in asdict(result).items() if name != "warnings"} for result in self.shards
            ],
        }


# ---------------------------------------------------------------- shards and their job


@dataclass(frozen=True)
class Shard:
    """A file, and the file that is written."""

    source: str
    target: str

    @property
    def sidecar(self) -> str:
        """The file with the provenance of its target's new values."""
        return f"{self.target}{SIDECAR}" if is_url(self.target) else str(sidecar_of(self.target))

    @property
    def record(self) -> str:
        """The file of its record."""
        folder, name = os.path.split(self.target)
        return _joined(folder, RECORDS, f"{name}.json")


@dataclass(frozen=True)
class BulkJob:
    """What is done with every shard: plain data, so that workers on other machines get all of it."""

    model: str
    choices: CompletionConfig
    reading: Mapping[str, Any]  # options of kbdisk.load
    shapes: str | None
    insert: bool
    force: bool
    device: str
    settings: Mapping[str, Any]  # on which the bytes of a target depend
    time: str
    folder: str = field(default_factory=os.getcwd)  # relative names start here
    is_for_shell: bool = field(default_factory=lambda: option_name("x") != "x")

    def finished(self, shard: Shard) -> ShardResult | None:
        """The result of a shard that is done; None where it is to be done. WriteError where something else stands there."""
        record, targets = _read_record(shard.record), store_of(shard.target)
        exists = targets.exists(shard.target)
        if not exists and (record is not None or not targets.exists(shard.sidecar)):
            return None
        replacing = f"Say {setting('force')} to replace it."
        if record is None:
            problem = "exists already, and was not made by completing shards."
        elif changed := _differences(record["settings"], self.settings):
            problem = f"was made with another {' and another '.join(changed)}."
        elif "result" not in record:
            return None
        elif not store_of(shard.source).has_state(shard.source, FileStamp(**record["source"])):
            problem = f"was made of {shard.source} as it was before a change."
        elif not _is_written(record, shard):
            problem = "was changed since it was made, or its sidecar was."
        else:
            return ShardResult(shard.source, shard.target, SKIPPED, **record["result"])
        if self.force:
            return None
        raise WriteError(shard.target, f"{problem} {replacing}")


def _is_written(record: Mapping[str, Any], shard: Shard) -> bool:
    """Whether target and sidecar are as they were written."""
    files, targets = {"target": shard.target, "sidecar": shard.sidecar}, store_of(shard.target)
    return all(targets.has_state(file, FileStamp(**record[name])) for name, file in files.items())


def _joined(*names: str) -> str:
    """A name in a folder. Those of a store have slashes everywhere."""
    return "/".join([names[0].rstrip("/"), *names[1:]]) if is_url(names[0]) else os.path.join(*names)  # noqa: PTH118


def _read_record(name: str) -> dict[str, Any] | None:
    try:
        record = load_json(store_of(name).read(name))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LoadError(name, f"expected a record of a shard: {error}. Remove it with its target.") from error
    return record if isinstance(record, dict) and isinstance(record.get("settings"), dict) else None


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of the settings that differ, as a message has them."""
    names = {"kbdisk": "version of kbdisk", "reading": "way to read it"}
    different = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return [names.get(name, name if name in ("model", "shapes") else option_name(name)) for name in different]


# ---------------------------------------------------------------- completing one shard


class ShardWorker:
    """A model that completes one shard after the other."""

    def __init__(self, job: BulkJob) -> None:
        self.job, self.model = job, open_model(job.model, job.device)
        self.model_hash = fingerprint(self.model.trained)
        self.shapes = None if job.shapes is None else read_constraints(job.shapes, lambda line: None)

    def complete(self, shard: Shard) -> ShardResult:
        """Complete a shard. A fault of the shard, or in it, is its result; others hold the lock of its target out."""
        try:
            with of_any_length(), store_of(shard.target).lock(shard.target):
                return self.job.finished(shard) or complete_shard(
                    self.job, shard, self.model, self.model_hash, self.shapes
                )
        except KBDiskError as error:
            return ShardResult(shard.source, shard.target, FAILED, str(error))
        except Exception as error:  # our own mistake, which must not end a job of days
            problem = f"{shard.source}: {type(error).__name__}: {error}. Complete it alone to see where."
            return ShardResult(shard.source, shard.target, FAILED, problem)


def complete_shard(
    job: BulkJob, shard: Shard, model: Model, model_hash: str = "", shapes: Schema | None = None
) -> ShardResult:
    """Complete a shard, and record it. Whoever calls this holds the lock of the target."""
    sources, targets = store_of(shard.source), store_of(shard.target)
    with sources.fetched(shard.source) as (source, stamp), targets.staged(shard.target) as target:
        kb = load(source, **job.reading)
        format = target_format([kb], target, None)
        refuse_long_names(target)
        refuse_odd(sidecar_of(target))
        WritePlan.for_items(kb, target, format=format, only_new=False, insert=job.insert)
        targets.make_folder(os.path.dirname(shard.record))  # noqa: PTH120
        targets.write(shard.record, dump_json({"settings": job.settings}))
        modelled = ModelledSource.by_model([kb], model, job.choices.only)
        modelled = replace(modelled, folder=job.model, model_hash=model_hash)
        completed = Completed.of(modelled, job.choices, shapes=shapes, every_gap=False, time=job.time, at_once=False)
        written = completed.write(target, format=format, insert=job.insert, force=True)
        summary = completed.summary
        result: dict[str, Any] = {
            "entities": summary.entities,
            "missing": summary.missing,
            "filled": summary.filled,
            "members": summary.members,
            "unread": sum(len(part.skipped) for part in modelled.kbs),
            "unwritable": len(written.lost),
            "is_unlike": bool(completed.drift),
        }
        files = {"sidecar": (str(sidecar_of(target)), shard.sidecar), "target": (target, shard.target)}
        for local, name in files.values():
            targets.send(local, name)
        stamps = {part: asdict(targets.stamp(name, local)) for part, (local, name) in files.items()}
    record = {"settings": job.settings, "source": asdict(stamp), **stamps, "result": result}
    targets.write(shard.record, dump_json(record))
    return ShardResult(shard.source, shard.target, DONE, **result)


# ---------------------------------------------------------------- completing all


def complete_shards(
    sources: StrPath | Iterable[StrPath],
    out: StrPath,
    *,
    model: StrPath,
    shapes: StrPath | None = None,
    only: Iterable[Path | str] = (),
    classes: Iterable[str] = (),
    seed: int | None = None,
    device: str = "auto",
    insert: bool = False,
    force: bool = False,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    reading: Mapping[str, Any] | None = None,
    progress: CountCallback | None = None,
    report: Callable[[str], None] | None = None,
    **choices: Any,
) -> BulkSummary:
    """Complete many files, each by itself with a model folder, into the folder `out`; see the head of this module.

    `sources` are files, or patterns such as "shards/*.jsonl.zst". A shard that this model has completed before, with the same
    options, is skipped. `force` replaces other targets. A shard that cannot be completed does not stop the others.

    `engine` is local or ray. `workers` are the actors of Ray, by default one for each processor of the cluster; `address` is
    that of a cluster, such as "auto", by default RAY_ADDRESS, or else Ray is started on this machine.

    `reading` are options of kbdisk.load. `choices` are those of kbdisk.completion.CompletionConfig. `progress` is called at the
    start and after each shard, `report` with a line about each constraint of `shapes` that is not enforced.
    """
    shards = shards_of(sources, out)
    chosen = choices_of(only, classes, seed, choices)
    if engine not in ENGINES:
        raise ConfigError(option_name("engine"), f"expected one of {', '.join(ENGINES)}, got {engine!r}.")
    if engine != "ray" and (workers is not None or address is not None):
        name = option_name("address" if workers is None else "workers")
        raise ConfigError(name, f"is for Ray. Say {setting('engine', 'ray')}, or leave it out.")
    if engine == "ray":
        _ray()
    if shapes is not None:
        read_constraints(os.fspath(shapes), report or (lambda line: None))
    settings = _settings(model, chosen, reading or {}, shapes, insert)
    processes = Processes.of_environment() if engine == "local" else Processes()
    folder = os.fspath(out)
    for name in (folder, _joined(folder, RECORDS)):
        store_of(name).make_folder(name)
    job = BulkJob(
        os.fspath(model),
        chosen,
        {name: value for name, value in (reading or {}).items() if name != "progress"},
        None if shapes is None else os.fspath(shapes),
        insert,
        force,
        device,
        settings,
        _shared_time(processes, folder, settings),
    )
    for shard in shards:
        job.finished(shard)  # refuses what may not be replaced, before any work
    mine = processes.part(shards)
    results: dict[str, ShardResult] = {}
    if progress is not None:
        progress(0, len(mine))
    for result in ENGINES[engine](job, mine, workers, address):
        for text in result.warnings:
            warnings.warn(text, KBDiskWarning, stacklevel=2)
        results[result.source] = result
        if progress is not None:
            progress(len(results), len(mine))
    gathered = _gather(processes, results)
    rank = processes.rank if processes.can_connect else 0
    return BulkSummary(tuple(gathered[shard.source] for shard in shards if shard.source in gathered), rank)


def shards_of(sources: StrPath | Iterable[StrPath], out: StrPath) -> list[Shard]:
    """The shards that files and patterns name, sorted by name as far as a pattern names them."""
    names = [sources] if isinstance(sources, str | os.PathLike) else sources
    files = dict.fromkeys(file for name in names for file in _files_of(os.fspath(name)))
    shards: dict[str, Shard] = {}
    for file in files:
        if file.endswith(FILES_BESIDE):
            continue
        target = _joined(os.fspath(out), os.path.basename(file))  # noqa: PTH119 - names stay as they are
        shard, targets = Shard(file, target), store_of(target)
        other = shards.setdefault(targets.identity(target), shard)
        if other is not shard:
            raise ConfigError(target, f"{other.source} and {file} would both be written there. Rename one.")
        if is_url(file) == is_url(target) and targets.is_same(file, target):
            raise WriteError(target, "is the shard itself. Choose another folder.")
    if not shards:
        raise LoadError(
            ", ".join(map(str, names)), "expected files, got none but those that kbdisk writes beside others."
        )
    return list(shards.values())


def _files_of(name: str) -> list[str]:
    """The files that a name or a pattern names."""
    if name == "-" or name.startswith(("http://", "https://")):
        raise LoadError(name, "expected a file, as each shard is read again where a job goes on.")
    return store_of(name).named_by(name)


def _settings(
    model: StrPath, choices: CompletionConfig, reading: Mapping[str, Any], shapes: StrPath | None, insert: bool
) -> dict[str, Any]:
    """What the bytes of a target depend on, besides the shard: as plain data."""
    usual = {"language": "en", "encoding": "utf-8", "missing": MISSING}
    recorded = {
        name: value for name, value in reading.items() if name not in UNRECORDED and value and value != usual.get(name)
    }
    settings = {
        "kbdisk": version("kbdisk"),
        "model": Files.of(model).config["checksum"],
        **asdict(choices),
        "insert": insert,
        "shapes": None if shapes is None else hash_file(shapes),
        "reading": recorded,
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=_as_plain, sort_keys=True))
    return plain


def _as_plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    return sorted(value, key=repr) if isinstance(value, set | frozenset) else str(value)


def _shared_time(processes: Processes, folder: str, settings: Mapping[str, Any]) -> str:
    """The time of the job, the same in all processes. In a folder the lock of its file sees to that."""
    if not is_url(folder) or processes.size == 1:
        return _time_of(folder, settings)
    if processes.can_connect:
        with processes.connected():
            return processes.share(lambda: _time_of(folder, settings))
    if not os.environ.get("SOURCE_DATE_EPOCH"):
        problem = "expected the time of the job, a number of seconds, as a store has no locks and several processes begin at once. Set it."
        raise ConfigError("SOURCE_DATE_EPOCH", problem)
    return _time_of(folder, settings)


def _time_of(folder: str, settings: Mapping[str, Any]) -> str:
    """The time of the job: that of the first process that has begun it. SOURCE_DATE_EPOCH sets it."""
    file = _joined(folder, RECORDS, JOB)
    with store_of(file).lock(file):
        begun = _read_record(file)
        if begun is not None and begun["settings"] == settings:
            return str(begun["time"])
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        now = datetime.now(UTC) if not epoch else datetime.fromtimestamp(int(epoch), UTC)
        time = now.isoformat(timespec="seconds")
        store_of(file).write(file, dump_json({"settings": settings, "time": time}))
        return time


# ---------------------------------------------------------------- in this process, alone or as one of several


def _complete_here(
    job: BulkJob, shards: Sequence[Shard], workers: int | None, address: str | None
) -> Iterator[ShardResult]:
    """Complete shards in this process. The model is opened for the first that is not done."""
    worker = None
    for shard in shards:
        if (finished := _finished_result(job, shard)) is not None:
            yield finished
            continue
        worker = worker or ShardWorker(replace(job, device=device_here(job.device)))
        yield worker.complete(shard)


def _finished_result(job: BulkJob, shard: Shard) -> ShardResult | None:
    """The result of a shard that is done, or that something has happened to since the job began."""
    try:
        return job.finished(shard)
    except KBDiskError as error:
        return ShardResult(shard.source, shard.target, FAILED, str(error))


def _gather(processes: Processes, results: dict[str, ShardResult]) -> dict[str, ShardResult]:
    """The results of all processes, once all are done; of this one alone if they cannot connect.

    torchrun stops all processes as soon as one has failed, so each waits for the others.
    """
    if not processes.can_connect:
        return results
    with processes.connected():
        return {source: result for part in processes.gather(results) for source, result in part.items()}


# ---------------------------------------------------------------- workers of Ray


class RayWorker(ShardWorker):
    """A worker in a process of Ray. Ray restarts it where its process is lost, and gives it its shard again."""

    def __init__(self, job: BulkJob) -> None:
        with contextlib.suppress(OSError):  # another machine may lack the folder: then names have to be absolute
            os.chdir(job.folder)
        super().__init__(job)

    def is_ready(self) -> bool:
        """Whether the model is open."""
        return True

    def complete(self, shard: Shard) -> ShardResult:
        """Complete a shard; its warnings go with its result, as nobody reads the output of a worker."""
        with warnings.catch_warnings(record=True) as caught, self.messages():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", KBDiskWarning)
            result = super().complete(shard)
        return replace(result, warnings=tuple(str(warning.message) for warning in caught))

    def messages(self) -> contextlib.AbstractContextManager[None]:
        """Messages name options as those of the process that has begun the job."""
        return messages_for_shell() if self.job.is_for_shell else contextlib.nullcontext()


def _complete_with_ray(
    job: BulkJob, shards: Sequence[Shard], workers: int | None, address: str | None
) -> Iterator[ShardResult]:
    """Complete shards by actors of Ray, each with the model. A worker gets its next shard when it is done with one."""
    waiting: deque[Shard] = deque()
    for shard in shards:
        if (finished := _finished_result(job, shard)) is None:
            waiting.append(shard)
        else:
            yield finished
    if not waiting:
        return
    ray = _ray()
    with _connected(ray, workers, address):
        count = min(workers or int(ray.cluster_resources().get("CPU", 1)), len(waiting))
        gpus = 1 if job.device.startswith("cuda") else 0
        actor_class = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=MAX_RETRIES)(RayWorker)
        actors = [actor_class.remote(job) for _ in range(count)]
        running: dict[Any, tuple[Any, Shard | None]] = {actor.is_ready.remote(): (actor, None) for actor in actors}
        problem = ""
        while running and (waiting or any(shard is not None for _, shard in running.values())):
            [ready], _ = ray.wait(list(running), num_returns=1)
            actor, shard_done = running.pop(ready)
            try:
                result = ray.get(ready)
            except ray.exceptions.RayError as error:
                problem = str(error).strip().splitlines()[-1]
                if shard_done is not None:  # its worker was lost again and again
                    running[actor.is_ready.remote()] = (actor, None)
                    yield ShardResult(shard_done.source, shard_done.target, FAILED, f"{shard_done.source}: {problem}")
                continue
            if shard_done is not None:
                yield result
            if waiting:
                shard = waiting.popleft()
                running[actor.complete.remote(shard)] = (actor, shard)
        for shard in waiting:  # no worker has started, or all are lost
            yield ShardResult(shard.source, shard.target, FAILED, f"{shard.source}: no worker of Ray: {problem}")


def _ray() -> Any:
    """Ray; ConfigError where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    try:
        import ray
    except ImportError:
        problem = "ray is not installed. Run: pip install 'kbdisk[ray]'"
        raise ConfigError(option_name("engine"), problem) from None
    return ray


@contextlib.contextmanager
def _connected(ray: Any, workers: int | None, address: str | None) -> Iterator[None]:
    """Connected with a cluster, or with Ray on this machine, which is started and stopped. A connection of the caller is used."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        processors = max(os.cpu_count() or 1, workers or 1)
        options |= {
            "num_cpus": processors,
            "include_dashboard": False,
            "object_store_memory": RAY_OBJECT_STORE,
        }
    try:
        ray.init(**options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        problem = str(error).strip().splitlines()[0]
        raise ConfigError(option_name("address"), f"no Ray at {address}: {problem}") from error
    try:
        yield
    finally:
        ray.shutdown()


# ---------------------------------------------------------------- the table of engines

ENGINES: Mapping[str, Callable[[BulkJob, Sequence[Shard], int | None, str | None], Iterator[ShardResult]]] = {
    "local": _complete_here,
    "ray": _complete_with_ray,
}
