"""What a run left: ledger, receipt, last metrics, verdict. Read from disk as a stranger would.

Owns the comparison of metrics with the ledger, by sums of its own: a receipt must not be a self-portrait.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from docket.errors import FormatError
from docket.primitives.canonical import Json, JsonObject, decode_object
from docket.primitives.money import PICO, ZERO, Usd
from docket.storage.paths import LEDGER
from docket.supervisor.second_place import SUFFIX

RECEIPT = "receipt.json"
VERIFY_SECONDS = 120.0
"""A drill's ledger is small; a verifier that takes longer hangs."""


@dataclass(frozen=True)
class Evidence:
    """One run directory, and the file with its last metrics."""

    directory: Path
    metrics_file: Path
    elsewhere: tuple[Path, ...] = ()
    """Directories that a run tells its end in where its own cannot be written."""

    @cached_property
    def lines(self) -> list[JsonObject]:
        """Every whole line of the ledger."""
        found = []
        for line in (self.directory / LEDGER).read_bytes().splitlines():
            try:
                found.append(decode_object(line))
            except FormatError:
                break
        return found

    @cached_property
    def events(self) -> list[JsonObject]:
        """The events that the receipt binds, or all of them; after a failed sync lines may stand beyond it."""
        bound = self.member("ledger.size")
        return self.lines[:bound] if isinstance(bound, int) else self.lines

    @cached_property
    def receipt(self) -> JsonObject | None:
        path = self.receipt_path
        return decode_object(path.read_bytes().rstrip(b"\n")) if path is not None else None

    @cached_property
    def receipt_path(self) -> Path | None:
        """The receipt, in its place or in the first place beside it that has one."""
        named = [place / f"{self.directory.name}{SUFFIX}" for place in self.elsewhere]
        return next((path for path in (self.directory / RECEIPT, *named) if path.exists()), None)

    @cached_property
    def metrics(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Samples by name and label values (in the order of label names); empty where the run left none."""
        if not self.metrics_file.exists():
            return {}
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(self.metrics_file.read_text()):
            for sample in family.samples:
                labels = tuple(value for _, value in sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
        return found

    @cached_property
    def verdict(self) -> str:
        """What ``docket verify --json`` says in a process of its own: of the run, or of a receipt elsewhere."""
        told = self.receipt_path
        path = self.directory if told is None or told.parent == self.directory else told
        command = [sys.executable, "-m", "docket", "verify", "--json", str(path)]
        done = subprocess.run(command, capture_output=True, check=False, timeout=VERIFY_SECONDS)
        try:
            return str(json.loads(done.stdout)["verdict"])
        except (ValueError, KeyError):
            return f"exit {done.returncode}"

    def of(self, kind: str) -> list[JsonObject]:
        """The data of every event of type ``kind``, in order."""
        return [cast(JsonObject, event["data"]) for event in self.events if event["type"] == kind]

    def sum_of(self, name: str) -> float:
        """All samples of a metric together."""
        return sum(self.metrics.get(name, {}).values())

    def member(self, path: str) -> Json:
        """A member of the receipt by dotted path; None where it is absent."""
        at: Json = self.receipt
        for name in path.split("."):
            at = at.get(name) if isinstance(at, dict) else None
        return at


def disagreements(evidence: Evidence) -> list[str]:
    """Where the last metrics and the ledger tell different stories; empty where they agree."""
    ledger = _figures(evidence)
    metrics = {
        "events": evidence.sum_of("docket_events_total"),
        "calls": evidence.sum_of("docket_calls_total"),
        "denied": evidence.sum_of("docket_denied_total"),
        "tokens": evidence.sum_of("docket_tokens_total"),
        "cost_usd": round(evidence.sum_of("docket_cost_usd_total"), 9),
    }
    return [
        f"{name}: ledger {ledger[name]}, metrics {metrics[name]}" for name in ledger if ledger[name] != metrics[name]
    ]


def _figures(evidence: Evidence) -> dict[str, float]:
    ends = evidence.of("model.response") + evidence.of("model.error")
    tokens: Counter[str] = Counter()
    cost = ZERO
    for end in ends:
        usage = end.get("usage")
        if not isinstance(usage, dict):
            continue
        for item in cast("list[JsonObject]", usage["items"]):
            if item.get("per") != 1:
                tokens[str(item["kind"])] += cast(int, item["quantity"])
        if "cost_usd" in usage:
            cost += Usd.parse(str(usage["cost_usd"]))
    return {
        "events": len(evidence.events),
        "calls": len(ends) + len(evidence.of("model.cache_hit")),
        "denied": sum(cast(int, denied["count"]) for denied in evidence.of("model.denied")),
        "tokens": sum(tokens.values()),
        "cost_usd": round(cost.pico / PICO, 9),
    }
