"""`make test-portable`: the numeric part of the tests as other machines would run it, one line for each setting.

What a tensor holds depends on the processor in its last bits: on the vector units, on native bfloat16, on how many
threads share a sum. A test that passes in all settings here asserts behaviour, not rounding.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
NUMERIC = [  # what computes with tensors: layers, beliefs, the network, the loss, and what stands beside the network
    "leaves",
    "model",
    "experts/test_weights.py",
    "experts/test_gaussian_process_regression.py",
]
SETTINGS = {
    "no vector units": {"ATEN_CPU_CAPABILITY": "default"},
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "no native bfloat16": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "the machine's best, two threads": {"OMP_NUM_THREADS": "2"},
    "one core beside a busy process": {},
}
CHANGED = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "OMP_NUM_THREADS")


def main() -> int:
    lacks_avx2 = best_capability() not in ("AVX2", "AVX512")
    statuses = []
    for name, variables in SETTINGS.items():
        if name == "AVX2" and lacks_avx2:
            print(f"{name}: this processor has no AVX2, left out", flush=True)
        else:
            statuses.append(run(name, variables, on_one_core="one core" in name))
    return max(statuses)


def best_capability() -> str:
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment({}))
    return done.stdout.strip()


def environment(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in CHANGED} | variables


def run(name: str, variables: dict[str, str], on_one_core: bool) -> int:
    """Run the numeric tests in a setting and say in one line how it went; all that pytest says where it did not go."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "--timeout=600"]
    before = cpu_seconds()
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=pin) if on_one_core else None
    try:
        done = subprocess.run(
            [*command, "-m", "numeric and not slow", *(str(TESTS / path) for path in NUMERIC)],
            cwd=TESTS.parent,
            env=environment(variables),
            preexec_fn=pin if on_one_core else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        took = cpu_seconds() - before
    finally:
        if busy is not None:
            busy.kill()
            busy.wait()
    result = re.sub(r" in [\d.]+s.*", "", done.stdout.rstrip().rpartition("\n")[2])
    setting = "".join(f" {variable}={value}" for variable, value in variables.items())
    print(f"{name}{f' ({setting.strip()})' if setting else ''}: {result}, {took:.0f} CPU seconds", flush=True)
    if done.returncode:
        print(done.stdout, flush=True)
    return done.returncode


def pin() -> None:
    """Keep this process on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
