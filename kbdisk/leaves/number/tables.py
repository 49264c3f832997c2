"""The codecs of all number properties, stacked: maps, grids, bounds and atoms by slot, in float64.

Shorter maps are padded by repeating their last knot, so no search ends within the padding; atoms with infinity.
What is done here for rows of many slots is what NumberCodec does for one; a test holds them together.

S slots   n rows   m values of each   P knots   A atoms
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kbdisk.leaves.number.codec import FAR, LARGEST_LOG, OPEN, THIN, NumberCodec


def padded(rows: Sequence[Sequence[float]], fill: float | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
    """Rows of different length as one table, the shorter ones filled up, or going on as they end."""
    longest = max(map(len, rows), default=0)
    filled = [[*row, *[row[-1] if fill is None else fill] * (longest - len(row))] for row in rows]
    return torch.tensor(filled, dtype=dtype).reshape(len(rows), longest)


class Tables(nn.Module):
    """What the number codecs of a model know, by slot. All of it is in the codecs, so none is saved with the weights."""

    x: Tensor
    z: Tensor
    slope: Tensor
    step: Tensor
    low: Tensor
    high: Tensor
    least: Tensor
    most: Tensor
    atoms: Tensor
    floor: Tensor

    def __init__(self, codecs: Sequence[NumberCodec]) -> None:
        super().__init__()
        x, z, slope = zip(*(codec.map.knots for codec in codecs), strict=True) if codecs else ((), (), ())
        tables = {
            "x": padded([row.tolist() for row in x]),  # (S, P)
            "z": padded([row.tolist() for row in z]),  # (S, P)
            "slope": padded([row.tolist() for row in slope]),  # (S, P + 1): the padding is as steep as the last tail
            "step": torch.tensor([codec.step for codec in codecs], dtype=torch.float64),  # (S,)
            "low": torch.tensor([codec.bounds[0] for codec in codecs], dtype=torch.float64),
            "high": torch.tensor([codec.bounds[1] for codec in codecs], dtype=torch.float64),
            "least": torch.tensor([codec.met[0] for codec in codecs], dtype=torch.float64),
            "most": torch.tensor([codec.met[1] for codec in codecs], dtype=torch.float64),
            "floor": torch.tensor([codec.floor_of_logs for codec in codecs], dtype=torch.float64),
            "atoms": padded([codec.atoms for codec in codecs], fill=torch.inf),  # (S, A)
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def forward(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) to codes z (n, m)."""
        return self._line(self.x[slot], self.z[slot], self.slope[slot], values)[0]

    def inverse(self, slot: Tensor, codes: Tensor) -> Tensor:
        """Codes z (n, m) to numbers within the bounds (n, m), not rounded."""
        values, _ = self._line(self.z[slot], self.x[slot], 1 / self.slope[slot], codes)
        return self.bounded(slot, values)

    def derivative(self, slot: Tensor, values: Tensor) -> Tensor:
        """dz / dx (n, m)."""
        return self.slope[slot].gather(1, torch.searchsorted(self.x[slot], values, right=True))

    @staticmethod
    def _line(start: Tensor, end: Tensor, slope: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Along the lines through knots (n, P), and the piece that each value is on (n, m)."""
        values = values.contiguous()
        piece = torch.searchsorted(start, values, right=True)  # (n, m)
        left = (piece - 1).clamp(min=0)
        return end.gather(1, left) + (values - start.gather(1, left)) * slope.gather(1, piece), piece

    def scaled(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) on the scale of their property: the logarithm where its values are skewed."""
        floor = self.floor[slot, None]
        return torch.where(floor > 0, torch.maximum(values, floor).clamp(min=THIN).log(), values)

    def unscaled(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) that stand at these points of their property's scale."""
        return torch.where(self.floor[slot, None] > 0, values.clamp(max=LARGEST_LOG).exp(), values)

    def bounded(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m), those beyond a bound at it."""
        return torch.minimum(torch.maximum(values, self.low[slot, None]), self.high[slot, None])

    def met(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) on the grid, those beyond all training values at the nearest of these."""
        met = torch.minimum(torch.maximum(values, self.least[slot, None]), self.most[slot, None])
        return self.snapped(slot, met)

    def snapped(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) on the grid of the resolution and within the bounds; an atom where one is within half a step."""
        step, least, most = self.step[slot, None], self.least[slot, None], self.most[slot, None]
        steps = values / step
        rounded = torch.where(steps.isinf(), values, torch.round(steps) * step)
        leaves = (rounded < least) | (rounded > most)  # as NumberCodec.decode has it, such a number keeps more digits
        values = self.bounded(slot, values.where(leaves & (values >= least) & (values <= most), rounded))
        atom = self.atom(slot, values)
        return torch.where(atom < 0, values, self._atoms_at(slot, atom)) if self.atoms.shape[1] else values

    def atom(self, slot: Tensor, values: Tensor) -> Tensor:
        """Which atom each number is (n, m), or -1."""
        if self.atoms.shape[1] == 0:
            return torch.full_like(values, -1, dtype=torch.long)
        atoms, values = self.atoms[slot], values.contiguous()
        right = torch.searchsorted(atoms, values).clamp(max=atoms.shape[1] - 1)
        left = (right - 1).clamp(min=0)
        near, far = (values - atoms.gather(1, left)).abs(), (values - atoms.gather(1, right)).abs()
        nearest = torch.where(near <= far, left, right)
        return torch.where(torch.minimum(near, far) < self.step[slot, None] / 2, nearest, -1)

    def _atoms_at(self, slot: Tensor, atom: Tensor) -> Tensor:
        return self.atoms[slot].gather(1, atom.clamp(min=0))

    def codes(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) as codes (n, m, 4), as NumberCodec.encode has them."""
        x, z, slope = self.x[slot], self.z[slot], self.slope[slot]
        half = self.step[slot, None] / 2
        code, here = self._line(x, z, slope, values)  # (n, m) each
        low, under = self._line(x, z, slope, values - half)
        high, over = self._line(x, z, slope, values + half)
        plain = slope.gather(1, here) * half  # right also where half is lost in the precision of x
        below = torch.where(under == here, plain, code - low).clamp(THIN, OPEN)
        above = torch.where(over == here, plain, high - code).clamp(THIN, OPEN)
        below = below.masked_fill(values - self.low[slot, None] < half, OPEN)
        above = above.masked_fill(self.high[slot, None] - values < half, OPEN)
        parts = [code.clamp(-FAR, FAR), below, above, self.atom(slot, values).double()]
        return torch.stack(parts, dim=2).float()

    def repeated(self, slot: Tensor) -> Tensor:
        """The atoms (n, A), and some number within the bounds where there is none."""
        atoms = self.atoms[slot]
        return self.bounded(slot, atoms.where(atoms.isfinite(), 0))

    def ends(self, slot: Tensor, values: Tensor) -> Tensor:
        """The first and the last step of the piece of the map that each number is on (n, 2 m); its own in a tail."""
        x, half = self.x[slot], self.step[slot, None] / 2
        right = torch.searchsorted(x, values.contiguous(), right=True)
        first, last = x.gather(1, (right - 1).clamp(min=0)) + half, x.gather(1, right.clamp(max=x.shape[1] - 1)) - half
        inner = (right > 0) & (right < x.shape[1])
        return torch.cat([torch.where(inner, first, values), torch.where(inner, last, values)], dim=1)

    def edges(self, slot: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Where the steps around numbers (n, m) begin and end, in code; infinite at the bounds."""
        half = self.step[slot, None] / 2
        below, above = self.forward(slot, values - half), self.forward(slot, values + half)
        below = below.masked_fill(values - self.low[slot, None] < half, -torch.inf)
        return below, above.masked_fill(self.high[slot, None] - values < half, torch.inf)
