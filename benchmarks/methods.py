"""The methods that a benchmark measures, as `--methods` names them: ours, the paper's, baselines and peers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks.peers import FILLS, PEERS, SAMPLES, registry
from benchmarks.peers.environments import missing
from benchmarks.results import OURS
from benchmarks.script import names_of
from kbdisk.errors import ConfigError
from kbdisk.evaluation import BASELINES

ALL = "all"
DISKPAPER, SINGLE_STEP = "diskpaper", "single-step"  # the preset paper; all values of a row drawn at once
PAPER_PRESET = "paper"
NOT_IN_ALL = {  # of BASELINES: named, they are measured
    "gbdt-median": "it predicts the means that gbdt predicts.",
    "gbdt-grid": "it takes many times as long as gbdt. Name it to measure it.",
}


@dataclass(frozen=True)
class Methods:
    """The methods of a benchmark."""

    names: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # of `all`, with the reasons

    def chosen(self, text: str, say: Callable[[str], None]) -> tuple[str, ...]:
        """The named methods; of `all` those that can run here, the others are reported with the reason."""
        if text.strip() != ALL:
            names = tuple(dict.fromkeys(names_of(text)))
            if not names:
                raise ConfigError("--methods", f"expected {ALL}, or some of {', '.join(self.names)}, got none.")
            self._refuse(names)
            return names
        reasons = dict(self.left_out) | {name: problem for name in self.names if (problem := problem_of(name))}
        for name, reason in reasons.items():
            say(f"without {name}: {reason}")
        return tuple(name for name in self.names if name not in reasons)

    def _refuse(self, names: Iterable[str]) -> None:
        known = [*self.names, *(name for name in self.left_out if name not in self.names)]
        registry.refuse_unknown(names, "--methods", known)
        for name in names:
            problem = self.left_out[name] if name not in self.names else problem_of(name)
            if problem:
                raise ConfigError("--methods", f"{name}: {problem}")


def problem_of(name: str) -> str | None:
    """Why a method cannot run here, and what to do; None where it can."""
    return missing(name) if name in PEERS and name not in BASELINES else None


def predicting() -> Methods:
    """What predicts a hidden property from others."""
    peers = [name for name in registry.able(FILLS) if name not in BASELINES]
    single_step = {
        SINGLE_STEP: "expected a benchmark that draws rows: here each value is predicted in one step anyway."
    }
    return Methods((OURS, DISKPAPER, *BASELINES, *peers), NOT_IN_ALL | single_step)


def drawing() -> Methods:
    """What draws rows like those of a table."""
    return Methods((OURS, SINGLE_STEP, DISKPAPER, *registry.able(SAMPLES)))


def over_links() -> Methods:
    """What predicts numbers from links."""
    return Methods((OURS, *BASELINES), {"gbdt-grid": NOT_IN_ALL["gbdt-grid"]})


METHODS = {"gsm": predicting, "nuclear": predicting, "tabular": drawing, "kb-numeric": over_links}  # by benchmark
