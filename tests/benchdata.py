"""Folders of data as the benches read them, made by hand: few and small entities in the same files.

`from benchdata import write_gsm`; RUN is a run file of a few steps.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

from models import run_file

RUN = run_file(3, 1)
PHONE = "model oem network_edge weight display_size height width depth battery launch.year launch.day launch.month"
NUCLIDE = (
    "z n binding binding_semf radius half_life_sec stability spin parity abundance qa qbm qbm_n qec sn sp "
    "electric_quadrupole volume surface symmetry coulomb"
)


def write_gsm(data: Path, count: int = 48) -> Path:
    """Phones of two makers; the last of each ten is another over again, but for its name."""
    draw = random.Random(0)
    rows: list[list[object]] = []
    for place in range(count):
        maker = ("Nokia", "Acer")[place % 2]
        if place % 10 == 9:
            rows.append([f"Copy {place}", *rows[-2][1:]])
        else:
            size = draw.randrange(80, 160)
            edge, name = ("nan", "No", "Class 10")[place % 3], f"{maker[0]}-Series {place}"
            day = place % 28 + 1 if place % 3 == 0 else ""
            rows.append(
                [
                    name,
                    maker,
                    edge,
                    size + 10.0,
                    size / 10,
                    float(size),
                    size / 2,
                    9.5,
                    10.5,
                    2000.0 + place % 9,
                    day,
                    3.0,
                ]
            )
    _table(data / "gsm" / "gsm_processed.csv", PHONE.split(), rows)
    sides = {"train": list(range(0, count, 2)) + list(range(1, count, 4)), "val": list(range(3, count, 4))}
    (data / "gsm" / "gsm_split_seed42.json").write_text(json.dumps(sides))
    return data


def write_nuclear(data: Path, count: int = 36) -> Path:
    """Nuclei whose figures are made up, but for the terms of the liquid-drop formula's volume."""
    rows: list[list[object]] = []
    for place in range(count):
        z, n = 9 + place // 6, 9 + place % 6
        known = [
            7000.0 + place,
            -90.0 + place,
            2.5 + z / 10,
            3.0 + n % 4,
            place % 2,
            0.5 * (n % 5),
            z % 2,
            float(n % 7),
        ]
        rows.append(
            [z, n, *known, *(100.0 * z - 50 * n + i for i in range(6)), 0.1 * z, z + n, (z + n) ** 0.6, n - z, z * z]
        )
    _table(data / "nuclear" / "nuclear_processed.csv", NUCLIDE.split(), rows)
    sides = {"train": [one for one in range(count) if one % 4], "val": list(range(0, count, 4))}
    (data / "nuclear" / "split_seed0.json").write_text(json.dumps(sides))
    return data


def write_kb(data: Path, count: int = 40) -> Path:
    """Towns in two countries, one at each end of the world; a town of each four is asked for."""
    towns = [f"t{place}" for place in range(count)]
    entities = [*towns, "north", "south"]
    _lines(data / "kb" / "fb15k237" / "entity2id.txt", [f"/m/{name}\t{at}" for at, name in enumerate(entities)])
    _lines(data / "kb" / "fb15k237" / "relation2id.txt", ["/town/country\t0", "/town/near\t1"])
    country = [f"{at} {count + at % 2} 0" for at in range(count)]
    near = [f"{at} {(at + step) % count} 1" for at in range(count) for step in (2, 4)]
    for name, lines in (("train", country), ("valid", near), ("test", [])):
        _lines(data / "kb" / "fb15k237" / f"{name}2id.txt", lines)
    numbers = [[name, "location.geocode.latitude", (60.0, -60.0)[at % 2] + at / count] for at, name in enumerate(towns)]
    numbers += [[name, "location.location.area", 100.0 * (at % 2) + at] for at, name in enumerate(towns)]
    folder = data / "kb" / "mrap_fb15k"
    _table(folder / "train_100", ["0", "1", "2"], [one for at, one in enumerate(numbers) if at % 4 != 3])
    _table(folder / "dev", ["0", "1", "2"], [one for at, one in enumerate(numbers) if at % 4 == 3])
    header = ["cell1", "", *(f"{name}-MAE" for name in ("long", "lat", "area"))]
    _table(folder / "published_fb15k_from_notebook.csv", header, [["cell1", "MrAP_cross-100", 4.0, 1.5, 10.0]])
    return data


def _lines(file: Path, lines: list[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([str(len(lines)), *lines]) + "\n")


def _table(file: Path, header: list[str], rows: list[list[object]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
