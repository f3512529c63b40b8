"""Reading a request's body, the same for every protocol that puts JSON into a POST, and of whatever else comes."""

from __future__ import annotations

from dataclasses import replace

import orjson

from docket.primitives.frozen import value
from docket.providers.call import DEPLOYMENT, UNKNOWN_MODEL, Call, EndpointClass, Sent
from docket.providers.deciding import SOURCES, ambiguity
from docket.providers.forms import UnreadableFormError, models_in_form
from docket.providers.json_fields import Document, members, text
from docket.providers.targets import models_named

MAX_PUBLIC = 128
"""Longest public string that the agent chooses, in characters (evidence format section 1)."""
UNFIT = "unfit"
MAX_MODELS = 64
"""Models that one request may name; a longer list is refused as ambiguous."""
_LISTS = ("models", "fallbacks", "fallback_models")
_FURTHER = frozenset({*_LISTS, "fallback_model", "tools"})
"""Members of a body in which further models may stand."""
FORMS = ("multipart/", "form-urlencoded")
"""Whatever holds one of these in its type is a form, or nothing that can be read."""
_BEFORE_JSON = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
"""What may stand before the first character of JSON: white space, and the marks of UTF-8, UTF-16 and UTF-32."""
NOT_AN_OBJECT = "its body is no JSON object"


@value
class Asked:
    """A request body that was looked at; ``document`` is empty where it could not be read."""

    sent: Sent
    parsed: bool
    document: Document
    ambiguous: str | None = None
    """As in ``Call``."""
    hides_input: bool = False
    """Whether a member that says where input comes from stands twice, so that the provider may read another one."""
    in_form: tuple[str, ...] = ()
    """The models that it names as a form."""
    unread: str | None = None
    """As in ``Call``."""

    def call(
        self,
        *,
        stream: bool | None = None,
        max_output: int | None = None,
        choices: int = 1,
        tier: str | None = None,
        stateful: bool = False,
        open_input: bool = False,
        previous: str | None = None,
        usage_in_stream: bool | None = None,
        background: bool = False,
    ) -> Call:
        """The call that this body makes; ``stream`` defaults to the member of that name.

        The model is the one in the path where one stands there, else the member ``model``.
        """
        sent, open_input = self.sent, open_input or self.hides_input
        models = models_of(self.document, sent.path, known=sent.endpoint.kind is EndpointClass.METERED)
        if self.in_form or sent.in_query:
            models = tuple(dict.fromkeys((*models, *self.in_form, *sent.in_query)))
        aliases: tuple[tuple[str, str], ...] = ()
        if sent.models or sent.deployments:
            models, aliases = _meant(models, sent, text(self.document, "model"))
        named = models[0] if models else None
        public = UNKNOWN_MODEL
        if named:
            public = named if len(named) <= MAX_PUBLIC and named.isprintable() else UNFIT
        ambiguous = self.ambiguous
        if len(models) > MAX_MODELS:
            models, ambiguous = models[:MAX_MODELS], ambiguous or "models"
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
            models[1:],
            self.unread,
            ambiguous,
            background,
            aliases,
        )


def _meant(
    names: tuple[str, ...], sent: Sent, in_body: str | None
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The models behind ``names``, and what stands for each name that is no model.

    Where the path names the deployment, that decides, and the body's model is a name that only rules judge (Azure
    OpenAI REST API reference, "Chat completions": the deployment stands in the path, ``model`` has no effect).
    """
    stated = sent.models or {}
    aliases: dict[str, str] = {}
    in_path = models_named(sent.path) if sent.deployments else ()
    for name in names:
        if in_path and name == in_body and name not in in_path:
            aliases[name] = ""
        elif name in stated or sent.deployments:
            aliases[name] = stated.get(name) or f"{DEPLOYMENT}{name}"
    models = [aliases.get(name, name) for name in names]
    return tuple(dict.fromkeys(model for model in models if model)), tuple(aliases.items())


def public_name(name: str) -> str:
    """``name`` as it may stand in public: itself, or ``unfit`` where it is too long or no printable text."""
    return name if len(name) <= MAX_PUBLIC and name.isprintable() else UNFIT


def models_of(document: Document, path: str, *, known: bool = True) -> tuple[str, ...]:
    """Every model that a request may use: those of its path, its own, its fallbacks, those of its tools.

    ``known`` says whether the path's endpoint is one that is metered.
    """
    by_path, own = models_named(path, known=known), document.get("model")
    if not by_path and _FURTHER.isdisjoint(document):  # a plain request names no other
        return (own.removeprefix("models/"),) if own and isinstance(own, str) else ()
    found = [*by_path, text(document, "model")]
    if not _FURTHER.isdisjoint(document):
        found.append(text(document, "fallback_model"))
        for name in _LISTS:
            listed = document.get(name)
            found += [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
            found.append(text(document, name))
            found += [text(each, "model") for each in members(document, name)]
        found += [text(tool, "model") for tool in members(document, "tools")]
    return tuple(dict.fromkeys(name.removeprefix("models/") for name in found if name))


def read_request(sent: Sent) -> Asked:
    """The body of a request as a JSON object; anything else is not parsed."""
    try:
        document = orjson.loads(sent.body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        return Asked(sent, False, {}, unread=sent.unread or NOT_AN_OBJECT)
    repeated: set[str] = set()
    ambiguous = ambiguity(sent.body, document, repeated)
    return Asked(sent, True, document, ambiguous, bool(repeated) and not repeated.isdisjoint(SOURCES))


def read_any(sent: Sent) -> Asked:
    """The body of a request to an endpoint without a parser: a JSON object, a form, or bytes that name no model.

    What it is decides not what is read: a body that could be taken for both is read as both.
    """
    asked, stated = read_request(sent), sent.content_type.lower()
    if sent.unread is None and any(kind in stated for kind in FORMS):
        try:
            models, documents = models_in_form(sent.content_type, sent.body)
        except UnreadableFormError as error:
            return replace(asked, parsed=False, unread=str(error))
        models += tuple(model for document in documents for model in models_of(document, ""))
        return replace(asked, parsed=True, in_form=models, unread=None)
    plain = bool(stated) and "json" not in stated and sent.body.lstrip(_BEFORE_JSON)[:1] not in (b"{", b"[", b'"')
    if not asked.parsed and sent.unread is None and (not sent.body or plain):
        return replace(asked, unread=None)
    return asked
