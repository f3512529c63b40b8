"""Keyed events of the agent: what is on the record under a key is found, and what is not is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docket.control.asserted import KEPT_US, MAX_KEYS, AssertedKeys, Keyed
from docket.ledger.chain import Chain, Entry, read_entry
from docket.ledger.codec import draft
from docket.ledger.events import Event, Note, ToolCall
from docket.primitives.instant import timestamp

EPOCH_US = 1_764_590_400_000_000


def written(chain: Chain, event: Event, unix_us: int) -> Entry:
    """``event`` as a later docket reads it from the ledger."""
    _, line, _ = chain.extend(draft(event), ts=timestamp(unix_us), elapsed_us=0, entropy=bytes)
    return read_entry(line.rstrip(b"\n"))


def note(key: bytes, body: bytes) -> Note:
    return Note(by="agent", private={"said": {"text": "x"}, "idempotency": Keyed.of(key, body).to_json()})


@given(
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", None]), st.binary(max_size=3), st.integers(0, 3 * KEPT_US)))
)
def test_every_keyed_event_of_the_last_day_is_found_and_no_other(said: list[tuple[bytes | None, bytes, int]]):
    chain, keys = Chain(), AssertedKeys()
    last: dict[bytes, tuple[bytes, int, int]] = {}
    for key, body, after in said:
        entry = written(chain, Note(by="agent") if key is None else note(key, body), EPOCH_US + after)
        keys.add(entry)
        if key is not None:
            last[key] = (body, entry.seq, after)
    now = EPOCH_US + 3 * KEPT_US // 2
    for key in (b"a", b"b", b"c", b"never"):
        found = keys.find(Keyed.of(key, b"").key, now)
        if key in last and now - (EPOCH_US + last[key][2]) < KEPT_US:
            assert found is not None
            assert (found.body, found.seq) == (Keyed.of(key, last[key][0]).body, last[key][1])
        else:
            assert found is None


def test_beyond_its_bound_the_oldest_key_is_forgotten_first():
    chain, keys = Chain(), AssertedKeys()
    for number in range(MAX_KEYS + 1):
        keys.add(written(chain, note(b"%d" % number, b""), EPOCH_US))
    assert keys.find(Keyed.of(b"0", b"").key, EPOCH_US) is None
    assert keys.find(Keyed.of(b"1", b"").key, EPOCH_US) is not None


def test_a_member_of_that_name_in_what_the_agent_says_is_no_key():
    keys, chain = AssertedKeys(), Chain()
    said = {"said": {"idempotency": {"key": "k", "body": "b"}}}
    keys.add(written(chain, ToolCall(by="agent", private=said), EPOCH_US))
    keys.add(written(chain, ToolCall(by="agent", private={"idempotency": ["k"]}), EPOCH_US))
    assert keys.find("k", EPOCH_US) is None
