"""The chain of a ledger: what it takes to add the next entry, and to check that one is the next.

Invariant: ``size``, ``head``, ``elapsed_us`` and the Merkle frontier always belong to the same entries; nothing is
kept of an entry but its hash in the frontier. A ``Chain`` knows no file and no clock.
"""

from __future__ import annotations

import re
from dataclasses import field
from hashlib import sha256

from docket.errors import FormatError
from docket.ledger.codec import DISCLOSED, Draft, from_json
from docket.ledger.events import Event
from docket.primitives.canonical import JsonObject, decode_object, encode, encode_checked
from docket.primitives.digest import COMMITMENT, LEAF, leaf_hash, sha256_hex
from docket.primitives.frozen import value
from docket.primitives.merkle import Frontier, Mark, ProofBuilder
from docket.primitives.sealed import SALT_BYTES, Entropy, seal

GENESIS = sha256_hex(b"docket-ledger/1")
"""``prev`` of the first event."""
MAX_LINE = 1 << 20
"""Longest line in bytes with its line feed, every private member in its longer form: bounds a reader's memory."""
ASSERTERS = frozenset({"boundary", "supervisor", "agent", "doctor"})
"""The values of ``by``."""
_WITHHELD = len('{"commitment":""}') + 64
_MEMBERS = frozenset({"seq", "ts", "elapsed_us", "type", "by", "data", "prev", "hash"})
_HEX = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\.[0-9]{6}Z")


@value
class Entry:
    """One line of a ledger: an event in its place. ``private`` is in its disclosed or withheld form."""

    seq: int
    ts: str
    elapsed_us: int
    type: str
    by: str
    data: JsonObject
    private: JsonObject | None
    prev: str
    hash: str
    unknown: JsonObject | None = None
    """Members beside these that a newer version wrote."""
    _event: Event | None = field(default=None, repr=False, compare=False)
    """The event as a value: the one that was written, or what ``event`` made of the line when it was first asked."""

    @property
    def event(self) -> Event:
        """The event as a value. Raises FormatError where a member of a known type is missing or of another type."""
        event = self._event
        if event is None:
            event = from_json(self.type, self.by, self.data, self.private)
            object.__setattr__(self, "_event", event)
        return event

    def to_json(self) -> JsonObject:
        document: JsonObject = {
            "seq": self.seq,
            "ts": self.ts,
            "elapsed_us": self.elapsed_us,
            "type": self.type,
            "by": self.by,
            "data": self.data,
            "prev": self.prev,
            "hash": self.hash,
        }
        if self.private is not None:
            document["private"] = self.private
        if self.unknown is not None:
            document |= self.unknown
        return document

    def to_line(self) -> bytes:
        """The canonical bytes and their line feed, as they stand in the file."""
        return encode(self.to_json()) + b"\n"


class BrokenChainError(FormatError):
    """A line that is an entry, but not the next one of this chain. ``kind`` says what does not fit."""

    code = "broken-chain"

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Chain:
    """The end of a ledger: everything needed to go on, whatever its length."""

    __slots__ = ("elapsed_us", "frontier", "head")

    def __init__(self) -> None:
        self.head = GENESIS
        """``hash`` of the last entry."""
        self.elapsed_us = 0
        """``elapsed_us`` of the last entry."""
        self.frontier = Frontier()

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.frontier.size

    def root(self) -> bytes:
        """The 32-byte Merkle root over all entries."""
        return self.frontier.root()

    def extend(
        self, draft: Draft, *, ts: str, elapsed_us: int, entropy: Entropy, watch: bool = False
    ) -> tuple[Entry, bytes, ProofBuilder | None]:
        """Put ``draft`` in its place: the entry, its line, and its growing proof if ``watch``.

        ``elapsed_us`` is raised to the last entry's if it lies before. Raises FormatError where the line would be
        longer than ``MAX_LINE``; the chain is then as it was.
        """
        elapsed_us = max(elapsed_us, self.elapsed_us)
        seq, prev = self.frontier.size, self.head
        private, sealed, disclosed, longer = _spell_private(draft, entropy)
        timing = f',"elapsed_us":{elapsed_us}'
        before = f',"prev":"{prev}"'
        place = f',"seq":{seq},"ts":"{ts}"{draft.closing}'
        parts = (LEAF, draft.opening, draft.sealed_data, f"{timing}{before}{sealed}{place}".encode())
        leaf = sha256(b"".join(parts)).digest()
        own = leaf.hex()
        rest = f'{timing},"hash":"{own}"{before}{disclosed}{place}\n'.encode()
        line = b"".join((draft.opening, draft.data_bytes, rest))
        if len(line) + longer > MAX_LINE:
            raise FormatError(f"{draft.type} takes a line of {len(line) + longer} bytes; the limit is {MAX_LINE}")
        proof = self.frontier.append_watched(leaf) if watch else None
        if proof is None:
            self.frontier.append(leaf)
        self.head, self.elapsed_us = own, elapsed_us
        entry = Entry(seq, ts, elapsed_us, draft.type, draft.by, draft.data, private, prev, own, None, draft.event)
        return entry, line, proof

    def follow(self, entry: Entry, *, watch: bool = False) -> ProofBuilder | None:
        """Take ``entry``, which was read from a ledger, as the next one.

        Raises BrokenChainError if it is not: ``kind`` is ``duplicate-seq`` (two writers), ``missing-seq``, ``prev``,
        ``hash`` or ``time``.
        """
        if entry.seq != self.size:
            kind = "duplicate-seq" if entry.seq < self.size else "missing-seq"
            raise BrokenChainError(kind, f"seq {entry.seq} where {self.size} belongs")
        if entry.prev != self.head:
            raise BrokenChainError("prev", f"prev of event {entry.seq} is not the hash of the event before")
        leaf = leaf_of(entry)
        if leaf.hex() != entry.hash:
            raise BrokenChainError("hash", f"event {entry.seq} does not give its hash")
        if entry.elapsed_us < self.elapsed_us:
            raise BrokenChainError("time", f"elapsed_us of event {entry.seq} lies before that of the event before")
        proof = self.frontier.append_watched(leaf) if watch else None
        if proof is None:
            self.frontier.append(leaf)
        self.head, self.elapsed_us = entry.hash, entry.elapsed_us
        return proof

    def mark(self) -> tuple[str, int, Mark]:
        """This state, to come back to if the entries put in next do not reach the disk."""
        return self.head, self.elapsed_us, self.frontier.mark()

    def reset(self, mark: tuple[str, int, Mark]) -> None:
        """Be again what ``mark`` says: the entries since then have no place."""
        self.head, self.elapsed_us, frontier = mark
        self.frontier.reset(frontier)


def read_entry(line: bytes) -> Entry:
    """The entry that ``line`` (no line feed) spells. Raises FormatError for anything that is not an entry."""
    if len(line) >= MAX_LINE:
        raise FormatError(f"line longer than {MAX_LINE} bytes")
    document = decode_object(line)
    private = document.get("private")
    if not document.keys() >= _MEMBERS:
        raise FormatError(f"no member {min(_MEMBERS - document.keys())!r}")
    if "private" in document and not (isinstance(private, dict) and private):
        raise FormatError("private is not an object with members")
    unknown = {name: document[name] for name in document.keys() - _MEMBERS - {"private"}} or None
    known = {name: document[name] for name in _MEMBERS}
    entry = Entry(private=private, unknown=unknown, **known)  # type: ignore[arg-type]
    if not (
        type(entry.seq) is int
        and entry.seq >= 0
        and type(entry.elapsed_us) is int
        and entry.elapsed_us >= 0
        and type(entry.data) is dict
        and type(entry.type) is str
        and type(entry.by) is str
        and entry.by in ASSERTERS
        and type(entry.ts) is str
        and _TIME.fullmatch(entry.ts)
        and _is_hex(entry.prev)
        and _is_hex(entry.hash)
    ):
        raise FormatError("a member is not of its type")
    return entry


def weight_of(draft: Draft) -> int:
    """An upper bound of the bytes that ``draft`` takes as a line."""
    return draft.weight


def leaf_of(entry: Entry) -> bytes:
    """The 32-byte RFC 9162 leaf hash of ``entry``, computed anew from its sealed form.

    Raises FormatError where a private member is neither disclosed nor withheld.
    """
    document = seal(entry.to_json())
    del document["hash"]
    return leaf_hash(encode_checked(document))


def _is_hex(value: object) -> bool:
    return type(value) is str and _HEX.fullmatch(value) is not None


def _spell_private(draft: Draft, entropy: Entropy) -> tuple[JsonObject | None, str, str, int]:
    """The disclosed members, the sealed and the disclosed spelling, and how much longer the line could be withheld."""
    if not draft.private_bytes:
        return None, "", "", 0
    private: JsonObject = {}
    sealed, disclosed, longer = [], [], 0
    salts = entropy(SALT_BYTES * len(draft.private_bytes)).hex()
    start = 0
    for name, spelled, member in draft.private_bytes:
        salt = salts[start : start + 2 * SALT_BYTES]
        start += 2 * SALT_BYTES
        private[name] = {"salt": salt, "value": draft.private[name]}
        text = member.decode()
        hashed = sha256(COMMITMENT + f'[{spelled},"{salt}",{text}]'.encode()).hexdigest()
        sealed.append(f'{spelled}:"{hashed}"')
        disclosed.append(f'{spelled}:{{"salt":"{salt}","value":{text}}}')
        if len(member) < _WITHHELD - DISCLOSED:
            longer += _WITHHELD - DISCLOSED - len(member)
    return private, f',"private":{{{",".join(sealed)}}}', f',"private":{{{",".join(disclosed)}}}', longer
