"""A receipt for people, as lines of text. Shows what the document says and judges nothing."""

from __future__ import annotations

from typing import Any

from docket.primitives.canonical import JsonObject

_WIDTH = 12
MAX_NAMED = 5
"""Members of bills that are named: the rows hold them all."""


def lines(receipt: JsonObject) -> list[str]:
    """The lines of the report on ``receipt``, a document of the receipt's shape."""
    document: Any = receipt
    return [
        *_run(document),
        "",
        *_spend(document),
        "",
        *_models(document["totals"]["by_model"]),
        *_rest(document),
        *_findings(document["findings"]),
        "",
        "What this receipt does not show:",
        *(f"  - {sentence}" for sentence in document["limits"]),
    ]


def _run(document: Any) -> list[str]:
    session = document["session"]
    said = [
        _line("run", document["docket"]),
        _line("made", f"{document['created_at']} by {document['tool'].get('name')} {document['tool'].get('version')}"),
        _line("outcome", f"{session['outcome']}, {_exit(session['exit'])}, after {_seconds(session['elapsed_us'])}"),
    ]
    label = _disclosed(session, "label")
    if label:
        said.insert(1, _line("label", label))
    argv = _disclosed(session, "argv")
    if isinstance(argv, list):
        said.append(_line("command", " ".join(map(str, argv))))
    if "breach" in session:
        breach = session["breach"]
        said.append(
            _line("stopped by", f"{breach['cap']}: {breach['observed']} of {breach['limit']} (event {breach['seq']})")
        )
    if session["drill"]:
        said.append(_line("drill", "faults were injected on purpose"))
    if document["kind"] == "recovered":
        said.append(_line("recovered", "made after the supervisor died; vouched for by nobody"))
    return said


def _spend(document: Any) -> list[str]:
    totals, caps = document["totals"], document["caps"]
    cost = {
        "exact": "{} USD, exact",
        "approximate": "about {} USD (some figures are docket's dearest reading)",
        "lower-bound": "at least {} USD (a lower bound)",
        "none": "unknown: no call has a priced figure",
    }[totals["cost_is"]].format(totals.get("cost_usd"))
    tokens = ", ".join(f"{quantity:,} {kind}" for kind, quantity in sorted(totals["tokens"].items())) or "none"
    sources = totals["by_source"]
    said = [
        _line("cost", cost),
        _line("tokens", tokens),
        _line("calls", f"{totals['calls']:,} sent, {totals['errors']:,} failed, {totals['denied']:,} refused"),
        _line(
            "figures", f"{sources['reported']:,} reported, {sources['partial']:,} partial, {sources['none']:,} unknown"
        ),
    ]
    for member, meaning in (("unread", "not priced"), ("assumed", "assumed")):
        named = _named(document["usage"].get("rows", []), member)
        if named:
            said.append(_line(meaning, named))
    for name, unit in (("usd", " USD"), ("tokens", " tokens"), ("calls", " calls")):
        cap, by = caps[name], "" if name == "calls" else ", by docket's word"
        if "limit" in cap:
            said.append(_line("cap", f"{cap['booked']} of {cap['limit']}{unit} booked{by}"))
    if "limit" in caps["wall_us"]:
        wall = caps["wall_us"]
        said.append(_line("cap", f"{_seconds(wall['booked'])} of {_seconds(wall['limit'])} passed"))
    total = document["latency"]["total"]
    if total["count"]:
        said.append(
            _line(
                "latency",
                f"median {_seconds(total['p50'])}, 95 % {_seconds(total['p95'])}, longest {_seconds(total['max'])}",
            )
        )
    return said


def _named(rows: Any, member: str) -> str:
    """The first few names that the bills of ``rows`` list under ``member``."""
    names = dict.fromkeys(name for row in rows for name in row["usage"].get(member, ()))
    listed = ", ".join(list(names)[:MAX_NAMED])
    return f"{listed}, ..." if len(names) > MAX_NAMED else listed


def _models(by_model: Any) -> list[str]:
    if not by_model:
        return []
    said = ["Models:"]
    for line in by_model:
        cost = f"{line['cost_usd']} USD" if "cost_usd" in line else "cost unknown"
        through = "" if line["upstream"] == line["provider"] else f" through {line['upstream']}"
        said.append(f"  {line['provider']} {line['model']}{through}: {line['calls']:,} calls, {cost}")
    return said


def _rest(document: Any) -> list[str]:
    said = []
    session, network, resilience = document["session"], document["network"], document["resilience"]
    changes = document["files"]["changes"]
    if changes:
        said.append(_line("files", ", ".join(f"{number:,} {name}" for name, number in sorted(changes.items()))))
    forwarded = {name: number for name, number in network["forwarded"].items() if number}
    if forwarded:
        said.append(_line("forwarded", ", ".join(f"{number:,} {name}" for name, number in sorted(forwarded.items()))))
    for name, number in sorted(resilience["denied_by_code"].items()):
        said.append(_line("refused", f"{number:,} {name}"))
    if session["orphans"]:
        said.append(_line("orphans", f"{session['orphans']} processes outlived the agent"))
    if session["survivors"]:
        said.append(_line("survivors", f"processes {', '.join(map(str, session['survivors']))} did not end"))
    if not document["ops"]["evidence"]["ledger_complete"]:
        said.append(_line("evidence", "events were lost (see ops.evidence)"))
    return said


def finding_line(finding: Any) -> str:
    """Return a finding of a receipt as one line; docket explain tells the whole of it."""
    impact = finding["impact"]
    word = {"exact": "", "at-least": "at least ", "at-most": "at most "}.get(impact["is"], "")
    cost = f"{word}{impact['usd']} USD" if "usd" in impact else "cost unknown"
    return f"  {finding['severity']}: {finding['rule']}, {finding['count']:,} events, {cost}: {finding['summary']}"


def _findings(found: Any) -> list[str]:
    return ["", "Findings:", *map(finding_line, found)] if found else []


def _exit(status: Any) -> str:
    if "code" in status:
        return f"exit {status['code']}"
    return f"signal {status['signal']}" if "signal" in status else "exit unknown"


def _disclosed(holder: Any, name: str) -> Any:
    member = holder.get("private", {}).get(name, {})
    return member.get("value")


def _seconds(microseconds: int) -> str:
    return f"{microseconds / 1_000_000:.2f} s"


def _line(name: str, text: str) -> str:
    return f"{name:<{_WIDTH}}{text}"
