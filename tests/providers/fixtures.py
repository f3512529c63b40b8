"""The provider answers of tests/fixtures/usage: what the upstream sends, in which pieces, and the right totals."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from docket.boundary.http1.wire import ResponseHead, field_lines
from docket.providers import registry
from docket.providers.call import Call, Observation
from tests.kit.calls import call_of

HERE = Path(__file__).parents[1] / "fixtures" / "usage"


@dataclass(frozen=True)
class Fixture:
    name: str
    document: dict[str, Any]

    @property
    def expected(self) -> dict[str, Any]:
        return self.document["expected"]

    @property
    def family(self) -> str:
        return self.document["api"].partition(".")[0]

    @property
    def sent(self) -> bytes:
        """The body as the upstream sends it."""
        response = self.document["response"]
        if "body_file" in response:
            return (HERE / response["body_file"]).read_bytes()
        build = response["build"]
        return (build["prefix"] + build["fill"] * build["fill_count"] + build["suffix"]).encode()

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(k.encode(), v.encode()) for k, v in self.document["response"]["headers"].items()]

    @property
    def media_type(self) -> bytes:
        return ResponseHead(1, 200, b"", field_lines(self.headers)).media_type

    @property
    def body(self) -> bytes:
        """The body without its content coding."""
        return zlib.decompress(self.sent, 31) if "gzip" in str(self.headers) else self.sent

    @property
    def cuts(self) -> list[int]:
        return self.document["response"].get("cut_at", [])

    @property
    def clean(self) -> bool:
        return self.document["response"]["end"] == "close"

    def call(self) -> Call:
        request = self.document["request"]
        endpoint = registry.recognise(self.family, request["method"], request["path"])
        body = json.dumps(request["body"]).encode()  # noqa: TID251 - a client's body, not a canonical document
        return call_of(endpoint, body, request["path"], provider="acme")

    def observe(self, pieces: list[bytes], *, clean: bool | None = None) -> Observation:
        status = self.document["response"]["status"]
        observer = registry.observer_of(self.call(), status=status, media_type=self.media_type)
        assert observer is not None
        for piece in pieces:
            observer.feed(piece)
        return observer.finish(clean=self.clean if clean is None else clean)


def load() -> list[Fixture]:
    paths = sorted(p for p in HERE.glob("*.json") if not p.name.endswith(".body.json") and p.name != "prices.json")
    return [Fixture(path.stem, json.loads(path.read_text())) for path in paths]


def cut(body: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *at, len(body)]
    return [body[a:b] for a, b in pairwise(edges)]
