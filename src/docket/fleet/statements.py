"""Every statement that a store is asked. Parameters are question marks; both engines understand the rest."""

from __future__ import annotations

VERSION = 1
"""Of the schema; a store of another version is refused until ``docket store upgrade``."""

SCHEMA = (
    """CREATE TABLE docket_schema (version BIGINT NOT NULL)""",
    """CREATE TABLE budgets (
        number BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE, parent BIGINT REFERENCES budgets (number),
        period TEXT NOT NULL, zone TEXT NOT NULL, usd BIGINT, tokens BIGINT, calls BIGINT,
        created BIGINT NOT NULL, closed BIGINT)""",
    """CREATE TABLE spending (
        budget BIGINT NOT NULL REFERENCES budgets (number), slot BIGINT NOT NULL,
        usd BIGINT NOT NULL, tokens BIGINT NOT NULL, calls BIGINT NOT NULL, PRIMARY KEY (budget, slot))""",
    """CREATE TABLE runs (
        run TEXT PRIMARY KEY, session BIGINT NOT NULL, machine TEXT NOT NULL, label TEXT NOT NULL, seen BIGINT NOT NULL,
        usd BIGINT NOT NULL, tokens BIGINT NOT NULL, calls BIGINT NOT NULL)""",
    """CREATE TABLE leases (
        id TEXT PRIMARY KEY, run TEXT NOT NULL REFERENCES runs (run), taken BIGINT NOT NULL,
        usd BIGINT, tokens BIGINT, calls BIGINT,
        used_usd BIGINT NOT NULL, used_tokens BIGINT NOT NULL, used_calls BIGINT NOT NULL, settled BIGINT)""",
    """CREATE INDEX leases_by_run ON leases (run)""",
    """CREATE TABLE lease_slots (
        lease TEXT NOT NULL REFERENCES leases (id), budget BIGINT NOT NULL REFERENCES budgets (number),
        slot BIGINT NOT NULL, PRIMARY KEY (lease, budget))""",
    """CREATE INDEX lease_slots_by_budget ON lease_slots (budget, slot)""",
)
SET_VERSION = "INSERT INTO docket_schema (version) VALUES (?)"
READ_VERSION = "SELECT version FROM docket_schema"

_BUDGET = "SELECT number, name, parent, period, zone, usd, tokens, calls, closed FROM budgets"
BUDGET_BY_NAME = f"{_BUDGET} WHERE name = ?"
BUDGET_BY_NUMBER = f"{_BUDGET} WHERE number = ?"
BUDGETS = f"{_BUDGET} ORDER BY name"
NEXT_NUMBER = "SELECT COALESCE(MAX(number), 0) + 1 FROM budgets"
CREATE_BUDGET = """INSERT INTO budgets (number, name, parent, period, zone, usd, tokens, calls, created)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
SET_LIMITS = "UPDATE budgets SET usd = ?, tokens = ?, calls = ? WHERE number = ?"
CLOSE_BUDGET = "UPDATE budgets SET closed = ? WHERE number = ?"

USED = """SELECT COALESCE(SUM(usd), 0), COALESCE(SUM(tokens), 0), COALESCE(SUM(calls), 0)
    FROM spending WHERE budget = ? AND slot >= ?"""
CHARGE = """INSERT INTO spending (budget, slot, usd, tokens, calls) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (budget, slot) DO UPDATE SET usd = spending.usd + excluded.usd,
    tokens = spending.tokens + excluded.tokens, calls = spending.calls + excluded.calls"""

SEE_RUN = """INSERT INTO runs (run, session, machine, label, seen, usd, tokens, calls) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (run) DO UPDATE SET session = excluded.session, machine = excluded.machine, label = excluded.label,
    seen = excluded.seen, usd = excluded.usd, tokens = excluded.tokens, calls = excluded.calls"""

LEASE = "SELECT usd, tokens, calls FROM leases WHERE id = ?"
TAKE_LEASE = """INSERT INTO leases (id, run, taken, usd, tokens, calls, used_usd, used_tokens, used_calls)
    VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)"""
LEASE_SLOT = "INSERT INTO lease_slots (lease, budget, slot) VALUES (?, ?, ?)"
SLOTS_OF_LEASE = "SELECT budget, slot FROM lease_slots WHERE lease = ? ORDER BY budget"
OPEN_LEASES = "SELECT id, usd, tokens, calls FROM leases WHERE run = ? AND settled IS NULL ORDER BY taken, id"
BUDGETS_OF_RUN = """SELECT DISTINCT s.budget FROM leases l JOIN lease_slots s ON s.lease = l.id
    WHERE l.run = ? AND l.settled IS NULL ORDER BY s.budget"""
SETTLED_BEFORE = """SELECT COALESCE(SUM(used_usd), 0), COALESCE(SUM(used_tokens), 0), COALESCE(SUM(used_calls), 0)
    FROM leases WHERE run = ? AND settled IS NOT NULL"""
SETTLE_LEASE = """UPDATE leases SET used_usd = ?, used_tokens = ?, used_calls = ?, settled = ?
    WHERE id = ? AND settled IS NULL"""

HELD = """SELECT l.run, SUM(COALESCE(l.usd, 0)), SUM(COALESCE(l.tokens, 0)), SUM(COALESCE(l.calls, 0)),
    r.usd, r.tokens, r.calls
    FROM lease_slots s JOIN leases l ON l.id = s.lease JOIN runs r ON r.run = l.run
    WHERE s.budget = ? AND s.slot >= ? AND l.settled IS NULL AND r.seen >= ? GROUP BY l.run, r.usd, r.tokens, r.calls"""
"""What runs that were seen since hold of a budget, and what they last said that they had spent of their open leases."""
BY_RUN = """SELECT l.run,
    SUM(CASE WHEN l.settled IS NULL THEN COALESCE(l.usd, 0) ELSE l.used_usd END),
    SUM(CASE WHEN l.settled IS NULL THEN COALESCE(l.tokens, 0) ELSE l.used_tokens END),
    SUM(CASE WHEN l.settled IS NULL THEN COALESCE(l.calls, 0) ELSE l.used_calls END)
    FROM lease_slots s JOIN leases l ON l.id = s.lease WHERE s.budget = ? AND s.slot >= ? GROUP BY l.run"""
HISTORY = """SELECT l.run, r.machine, r.label, l.taken, COALESCE(l.usd, 0), COALESCE(l.tokens, 0), COALESCE(l.calls, 0),
    l.used_usd, l.used_tokens, l.used_calls, l.settled
    FROM lease_slots s JOIN leases l ON l.id = s.lease JOIN runs r ON r.run = l.run
    WHERE s.budget = ? ORDER BY l.taken DESC, l.id LIMIT ?"""
UNSETTLED = """SELECT DISTINCT r.run, r.machine, r.seen FROM leases l JOIN runs r ON r.run = l.run
    WHERE l.settled IS NULL ORDER BY r.run"""
