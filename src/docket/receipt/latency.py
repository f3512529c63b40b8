"""Nearest-rank percentiles in constant memory: a histogram over values of three significant digits.

Invariant: a figure depends on the multiset of samples alone, so a verifier that reads the ledger finds the same one.
"""

from __future__ import annotations

from docket.primitives.canonical import JsonObject

DIGITS = 3
"""Significant digits that a sample keeps; it is cut, never rounded up (spec R-LAT-1). Bounds the histogram."""
PERCENTILES = (50, 95, 99)


def cut(sample_us: int) -> int:
    """``sample_us`` with its digits after the third set to 0."""
    unit: int = 10 ** max(0, len(str(sample_us)) - DIGITS)
    return sample_us - sample_us % unit


class Histogram:
    """Counts of cut samples: at most 900 for each power of ten."""

    __slots__ = ("_counts", "count")

    def __init__(self) -> None:
        self.count = 0
        self._counts: dict[int, int] = {}

    def add(self, sample_us: int) -> None:
        """Take one sample, in microseconds, not negative."""
        value = cut(sample_us)
        self._counts[value] = self._counts.get(value, 0) + 1
        self.count += 1

    def to_json(self) -> JsonObject:
        """``{count, p50, p95, p99, max}`` in microseconds; the count alone where there is no sample."""
        document: JsonObject = {"count": self.count}
        if not self.count:
            return document
        ascending = sorted(self._counts.items())
        for percent in PERCENTILES:
            document[f"p{percent}"] = self._at(ascending, -(-percent * self.count // 100))
        document["max"] = ascending[-1][0]
        return document

    def at(self, rank: int) -> int:
        """Return the sample of this ``rank``, the least being 1. Raises AssertionError for one that is not there."""
        return self._at(sorted(self._counts.items()), rank)

    @staticmethod
    def _at(ascending: list[tuple[int, int]], rank: int) -> int:
        for value, count in ascending:
            rank -= count
            if rank <= 0:
                return value
        raise AssertionError("a rank lies within the count")
