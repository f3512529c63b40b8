"""What the mechanisms of ``[resilience]`` cost while nothing fails: ``python -m bench.mechanisms``.

CPU time of admitting and settling one call, with the default policy beside one in which they are off, in turn; and of
the metrics' fold. The fastest of several rounds each, so that other work on the machine matters little.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from decimal import Decimal

from bench.pieces import SENT
from bench.subject import PRICES
from docket.control.admission import Gate, Proposal
from docket.control.breaker import Ended
from docket.control.readiness import Status
from docket.ledger.chain import Chain
from docket.ledger.codec import draft
from docket.ledger.events import CallNumber, Hold, ModelRequest, ModelResponse
from docket.ledger.usage import Item, Usage
from docket.policy.model import Policy
from docket.policy.resilience import Resilience
from docket.pricing.table import PriceTable
from docket.primitives.canonical import encode
from docket.primitives.instant import Instant
from docket.primitives.money import Usd
from docket.providers import registry
from docket.telemetry.metrics import Metrics

ROUNDS = 15
TIMES = 2000
POLICIES = {
    "breaker off, no limiter": Resilience(breaker_threshold=0),
    "default": Resilience(),
    "default and a limiter that never refuses": Resilience(max_calls_per_second=Decimal(100_000)),
}


def gate_step(resilience: Resilience) -> Callable[[], object]:
    """Admit and settle one call under ``resilience``, at a time that goes on."""
    call = registry.call_of(SENT)
    gate = Gate(Policy(resilience=resilience), PriceTable.parse(encode(PRICES), at="2026-11-30"))
    ended, now = Ended(reason="complete", status=200), 0

    def step() -> object:
        nonlocal now
        now += 1000
        proposal = gate.ask(call, Instant(now))
        assert isinstance(proposal, Proposal)
        return gate.settle(gate.take(proposal, Instant(now)), call, ended, None, Instant(now))

    return step


def fold_step() -> Callable[[], object]:
    """Fold the two entries of one call into the metrics."""
    metrics = Metrics(lambda: Status(docket="DKT-20261130-AAAAAAAAAA"))
    call, usd = CallNumber(1), Usd.parse("0.00001")
    request = ModelRequest(
        call, "up", "openai", "openai", "/v1/chat/completions", "gpt-5", False, 80, Hold(tokens=12), waited_us=0
    )
    usage = Usage("reported", (Item("input", 12),), usd)
    response = ModelResponse(
        call, 200, "complete", "openai", "gpt-5", "standard", "up", first_byte_us=90, duration_us=900, usage=usage
    )
    chain = Chain()
    entries = [chain.extend(draft(event), ts="", elapsed_us=0, entropy=bytes)[0] for event in (request, response)]

    def step() -> None:
        for entry in entries:
            metrics.observe(entry)

    return step


def main() -> None:
    steps = {f"admit and settle: {name}": gate_step(keys) for name, keys in POLICIES.items()}
    steps["metrics: the two entries of a call"] = fold_step()
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(ROUNDS):
        for name, step in steps.items():
            began = time.process_time()
            for _ in range(TIMES):
                step()
            best[name] = min(best[name], (time.process_time() - began) / TIMES * 1e6)
    for name, took in best.items():
        sys.stdout.write(f"| {name} | {took:.1f} |\n")


if __name__ == "__main__":
    main()
