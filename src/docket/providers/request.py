"""Reading a request's body, the same for every protocol that puts JSON into a POST."""

from __future__ import annotations

import orjson

from docket.primitives.frozen import value
from docket.providers.call import UNKNOWN_MODEL, Call, Sent
from docket.providers.json_fields import Document, text

MAX_PUBLIC = 128
"""Longest public string that the agent chooses, in characters (evidence format section 1)."""
UNFIT = "unfit"


@value
class Asked:
    """A request body that was looked at; ``document`` is empty where it could not be read."""

    sent: Sent
    parsed: bool
    document: Document

    def call(
        self,
        *,
        model: str | None = None,
        stream: bool | None = None,
        max_output: int | None = None,
        choices: int = 1,
        tier: str | None = None,
        stateful: bool = False,
        open_input: bool = False,
        previous: str | None = None,
        usage_in_stream: bool | None = None,
    ) -> Call:
        """The call that this body makes; ``model`` and ``stream`` default to the members of those names."""
        named = model or text(self.document, "model")
        public = public_name(named) if named else UNKNOWN_MODEL
        sent = self.sent
        return Call(
            sent.upstream,
            sent.provider,
            sent.endpoint,
            public,
            self.document.get("stream") is True if stream is None else stream,
            max_output,
            choices,
            tier,
            sent.body_bytes,
            self.parsed,
            stateful or open_input,
            open_input,
            named if public == UNFIT else None,
            previous,
            usage_in_stream,
            sent.retry_count,
            sent.credential,
        )


def public_name(name: str) -> str:
    """``name`` as it may stand in public: itself, or ``unfit`` where it is too long or no printable text."""
    return name if len(name) <= MAX_PUBLIC and name.isprintable() else UNFIT


def read_request(sent: Sent) -> Asked:
    """The body of a request as a JSON object; anything else is not parsed."""
    try:
        document = orjson.loads(sent.body)
    except orjson.JSONDecodeError:
        document = None
    parsed = isinstance(document, dict)
    return Asked(sent, parsed, document if parsed else {})
