"""The providers, in an ordered tuple, and the way from a request to the one that reads it."""

from __future__ import annotations

from docket.providers.anthropic import Anthropic
from docket.providers.base import Observer, Provider
from docket.providers.call import Call, Endpoint, Sent
from docket.providers.endpoints import find
from docket.providers.gemini import Gemini
from docket.providers.ollama import Ollama
from docket.providers.openai_chat import OpenAIChat
from docket.providers.openai_completions import OpenAICompletions
from docket.providers.openai_embeddings import OpenAIEmbeddings
from docket.providers.openai_responses import OpenAIResponses
from docket.providers.request import read_any

REGISTRY: tuple[Provider, ...] = (
    OpenAIChat(),
    OpenAIResponses(),
    OpenAICompletions(),
    OpenAIEmbeddings(),
    Anthropic(),
    Gemini(),
    Ollama(),
)
"""One provider for each wire protocol that is metered."""

_BY_PROTOCOL = {provider.protocol: provider for provider in REGISTRY}


def recognise(family: str, method: str, path: str, *, body: bool = False, names_model: bool = False) -> Endpoint:
    """The endpoint that a request names at an upstream of ``family``; ``path`` as sent, a query is ignored.

    ``body`` says whether the request has one, ``names_model`` whether its query names a model.
    """
    return find(family, method, path, body=body, names_model=names_model)


class _Unparsed:
    """Whatever has no parser: of a request only the model is looked for, and nothing reads its answer."""

    protocol = ""

    def call(self, sent: Sent) -> Call:
        return read_any(sent).call()

    def observer(self, call: Call, status: int, media_type: bytes) -> None:
        return None


_UNPARSED = _Unparsed()


def reader_of(endpoint: Endpoint) -> Provider:
    """What reads requests to ``endpoint`` and their answers."""
    return _BY_PROTOCOL.get(endpoint.protocol, _UNPARSED)


def call_of(sent: Sent) -> Call:
    """What a request asks of its endpoint; without a parser only the model is looked for."""
    return reader_of(sent.endpoint).call(sent)


def observer_of(call: Call, status: int, media_type: bytes) -> Observer | None:
    """A fresh observer for the answer to ``call``, or None where nothing reads such answers.

    ``media_type`` is the answer's in lower case and without parameters, empty where it states none.
    """
    return reader_of(call.endpoint).observer(call, status, media_type)
