"""What a request asks for, independent of the provider; and what was seen of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from docket.ledger.usage import Counts
from docket.primitives.frozen import value

UNKNOWN_MODEL = "unknown"
"""Stands in events where no model could be read."""
DEPLOYMENT = "deployment:"
"""Stands before the name of a deployment whose model is not known, so that no price of a model is found for it."""


class EndpointClass(StrEnum):
    """How an endpoint counts (one table, four classes)."""

    METERED = "metered"
    FREE = "free"
    UNMETERED = "unmetered"
    """Billed by the provider, but not by a figure that docket reads."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A recognised endpoint: ``name`` is its normalised path class, for example ``/v1/chat/completions``."""

    name: str
    kind: EndpointClass
    protocol: str
    """The wire protocol whose parser observes the answer; for an endpoint without parser, the upstream's family."""
    family: str
    """``openai``, ``anthropic``, ``gemini`` or ``ollama``: whose error shape a refusal takes."""


@value
class Sent:
    """A request to an endpoint as it came, of which a provider makes a ``Call``."""

    upstream: str
    provider: str
    endpoint: Endpoint
    path: str
    """As sent, without the query: some protocols name the model there."""
    body: bytes
    """Without its content coding."""
    body_bytes: int
    """Of the body as sent."""
    retry_count: int | None = None
    credential: str | None = None
    """As in ``Call``."""
    unread: str | None = None
    """Why ``body`` could not be had without its content coding, as a phrase for people; then it is empty."""
    models: Mapping[str, str] | None = None
    """The models behind names, by the policy."""
    deployments: bool = False
    """Whether every other name is a deployment's, whose model is not known."""
    in_query: tuple[str, ...] = ()
    """The models that the query of the target names."""
    content_type: str = ""
    """As the request states it; several fields stand here with a comma between them."""


@value
class Call:
    """One request to an endpoint, before admission."""

    upstream: str
    provider: str
    endpoint: Endpoint
    model: str = UNKNOWN_MODEL
    stream: bool = False
    max_output: int | None = None
    """Output limit in tokens that the request sets, for one answer."""
    choices: int = 1
    """Answers asked for at once (``n``, ``candidateCount``); each may be as long as the limit."""
    tier: str | None = None
    """The tier that the request names; only the answer says which one served it."""
    body_bytes: int = 0
    parsed: bool = False
    """Whether the body could be read; where not, only the path may name a model."""
    stateful: bool = False
    """Whether the request builds on state that the provider keeps (``previous_response_id`` and the like)."""
    open_input: bool = False
    """Whether the answer may rest on input that the body does not hold and ``previous`` does not name: files, URLs,
    conversations, tools that the provider runs. The body's bytes then bound nothing."""
    private_model: str | None = None
    """The model's name where it is too long or unfit to be public; ``model`` then says ``unfit``."""
    previous: str | None = None
    """The provider's id of the answer that this request continues."""
    usage_in_stream: bool | None = None
    """What the request says of ``stream_options.include_usage``; None where it says nothing or cannot."""
    retry_count: int | None = None
    credential: str | None = None
    """Fingerprint of the credential under a key of the run: in memory only, never written, never a label."""
    others: tuple[str, ...] = ()
    """Further models that the call may use: fallbacks, advisors, models of tools, those in path, query and form."""
    unread: str | None = None
    """Why the body could not be read, as a phrase for people; None where it could, or where it can name no model."""
    ambiguous: str | None = None
    """A deciding member that two servers could read differently: given twice, or in other letters."""
    background: bool = False
    """Whether the answer may come later, on another request (``background: true``)."""
    aliases: tuple[tuple[str, str], ...] = ()
    """Names in the request that are no models, each with what stands for it in ``models``; "" where nothing does."""

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that the call may use, the one it asks for first."""
        return (self.private_model or self.model, *self.others)

    @property
    def hidden(self) -> bool:
        """Whether one of ``models`` is a deployment, so that nobody said which model it is."""
        return any(model.startswith(DEPLOYMENT) for model in self.models)

    def served(self, named: str) -> str:
        """The model that served the call: the one that its answer ``named``, unless that is a name of the request's."""
        return dict(self.aliases).get(named) or named


Terminal = Literal["complete", "incomplete", "error", "truncated", "unterminated"]
"""How an answer ended by its own protocol; ``unterminated`` is a clean end with content and no terminator."""


@value
class Observation:
    """What an observer made of a whole answer. Never wrong by guess: what was not seen is absent."""

    terminal: Terminal
    counts: Counts
    model: str | None = None
    tier: str | None = None
    finish: str | None = None
    error_type: str | None = None
    """The provider's own error type, where the answer (or an event in it) is an error."""
    answer_id: str | None = None
    """The provider's id of the answer, which a later stateful request may name."""
    unread: str | None = None
    """Why a part of the body could not be read (``coding``, ``bomb``, ``too-long``, ``not-json``), if so."""
    size: int = 0
    """Decoded bytes of the body that were seen."""
    reasoning: int | None = None
    """The part of the output that the provider calls reasoning, where it says; it is billed inside ``output``."""
