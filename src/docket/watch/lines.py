"""A view in words: what the terminal shows, as plain text, one fact a line."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from docket.watch.view import View, plain

CAPS = (
    ("max_usd", "usd", "USD"),
    ("max_tokens", "tokens", "tokens"),
    ("max_model_calls", "calls", "calls"),
    ("max_wall_seconds", "seconds", "s"),
)
"""Caps by the name of their limit: what of the view is counted against it, and its unit."""


def state(view: View, *, live: bool) -> str:
    """Return in a word what the run does."""
    if view.outcome is not None:
        return view.outcome
    return "running" if live else "ended without an end: docket doctor says more"


def used(view: View, cap: str) -> Decimal:
    """Return what counts against the cap ``cap``, in its unit."""
    match cap:
        case "max_usd":
            return Decimal(view.usd)
        case "max_tokens":
            return Decimal(view.tokens)
        case "max_model_calls":
            return Decimal(view.calls)
        case _:
            return Decimal(view.elapsed_us) / 1_000_000


def share(view: View, cap: str) -> float | None:
    """Return how much of the cap is used, 1.0 being all of it; None where the policy sets no such cap."""
    limit = view.limits.get(cap)
    if limit is None:
        return None
    return float(used(view, cap) / Decimal(str(limit))) if Decimal(str(limit)) else 1.0


def summary(view: View, *, live: bool) -> Iterator[str]:
    """Yield the facts of a view, the most asked for first."""
    yield f"{view.docket or 'a run that has not begun'}  {state(view, live=live)}  {seconds(view.elapsed_us / 1e6)}"
    spent = f"{view.usd} USD booked"
    if view.unpriced:
        spent += f", {view.unpriced} calls at what they held, their bill is unknown"
    if view.reserved_usd:
        spent += f", {view.reserved_usd} reserved"
    yield spent
    for cap, _, unit in CAPS:
        portion = share(view, cap)
        if portion is not None:
            yield f"{cap}: {plain(round(used(view, cap), 6))} of {view.limits[cap]} {unit} ({portion:.0%})"
    left = view.seconds_left()
    if left is not None and live:
        yield f"at this rate the money lasts {seconds(left)}"
    yield f"{view.calls} calls, {len(view.open)} under way, {view.errors} errors, {sum(view.denied.values())} refused"
    for title, counts in (("refused", view.denied), ("tokens", view.kinds), ("files", view.changes)):
        if counts:
            yield f"{title}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    for upstream, word in sorted(view.breakers.items()):
        yield f"breaker of {upstream}: {word}"
    if view.limited:
        yield f"the limiter refused {view.limited} times"
    if view.cache_hits:
        yield f"{view.cache_hits} answers from the cache, {view.saved_usd} USD saved"
    if view.lost:
        yield f"{view.lost} events could not be written"
    for rule in view.violations:
        yield f"violation: {rule}"
    if view.breach is not None:
        yield f"breached: {view.breach['cap']}, {view.breach['observed']} of {view.breach['limit']}"
    if view.faults:
        yield f"a drill: {view.faults} faults were injected"


def seconds(amount: float) -> str:
    """Return a time as people say it: ``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = int(amount)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
