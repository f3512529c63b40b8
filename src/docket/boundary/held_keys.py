"""Keys that docket keeps from the agent: it sends the run's token in their place, and the key goes in on the way out.

Invariant: a key goes only to the origin that it is for, and only into a field (or query member) in which that family's
clients send keys, where the whole credential is the token. So no provider is asked to repeat a key from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from docket.boundary.http1.origin import Origin
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.wire import RequestHead
from docket.boundary.routes import Route
from docket.families import BY_NAME, Family


@dataclass(frozen=True, slots=True)
class _Held:
    """The keys of one origin by the field that they are usually sent in, the one of every other field first."""

    family: Family
    by_field: tuple[tuple[bytes, bytes], ...] = field(repr=False)

    def key(self, name: bytes) -> bytes:
        return dict(self.by_field).get(name, self.by_field[0][1])


class HeldKeys:
    """The keys of a run. ``token`` is what the agent has instead."""

    def __init__(self, token: str, routes: Iterable[Route], keys: Mapping[str, str]) -> None:
        """``keys`` by variable; those of a family are for the first of ``routes`` that speaks it."""
        self.token = token
        self._token = token.encode()
        self._by_origin: dict[Origin, _Held] = {}
        seen: set[str] = set()
        for route in routes:
            family = BY_NAME.get(route.family)
            if family is None or family.name in seen:
                continue
            seen.add(family.name)
            found = tuple((sent, keys[name].encode()) for name, sent in family.key_fields if name in keys)
            if found:
                self._by_origin[route.origin] = _Held(family, found)

    def lacks(self, route: Route, head: RequestHead) -> bool:
        """Return whether a request sends the token as a key to an upstream for which none is held."""
        family = BY_NAME.get(route.family)
        if route.origin in self._by_origin or family is None:
            return False
        return any(self._is_token(line) for name, line in head.lines if name in family.credentials)

    def fill(self, request: Outgoing) -> Outgoing:
        """Return ``request`` with the key in the token's place."""
        held = self._by_origin.get(request.origin)
        if held is None:
            return request
        head, fields = request.head, held.family.credentials
        lines = [self._filled(line, held.key(name)) if name in fields else line for name, line in head.lines]
        target = request.target
        if held.family.key_query is not None:
            target = self._filled_query(target, held)
        head = RequestHead(head.method, head.target, head.minor, lines)
        return replace(request, head=head, target=target, spelled=None)  # what was spelt before has the token in it

    def _is_token(self, line: bytes) -> bool:
        """Whether the credential of a field line is the token: its whole value, or what follows a scheme."""
        return line.partition(b":")[2].strip().rpartition(b" ")[2] == self._token

    def _filled(self, line: bytes, key: bytes) -> bytes:
        return line.replace(self._token, key) if self._is_token(line) else line

    def _filled_query(self, target: bytes, held: _Held) -> bytes:
        path, mark, query = target.partition(b"?")
        name = held.family.key_query or b""
        wanted, given = b"%b=%b" % (name, self._token), b"%b=%b" % (name, held.key(b""))
        return path + mark + b"&".join(given if member == wanted else member for member in query.split(b"&"))
