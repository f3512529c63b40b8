"""The models that a form names: a body of ``multipart/form-data`` (RFC 7578) or ``application/x-www-form-urlencoded``.

Invariant: what is found is all that some server could read as a model; a form on which two servers could differ in
where a field begins, ends or is called is not read at all, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

import orjson

from docket.primitives.frozen import value
from docket.providers.deciding import ambiguity
from docket.providers.json_fields import Document

NAMES = frozenset({"model", "models", "fallback_model", "fallback_models", "fallbacks", "deployment"})
"""Fields, and parameters of a query, that name a model, in lower case."""
MAX_FIELDS = 1024
"""Fields of one form that are looked at; a form with more is not read."""
MAX_MODEL = 1024
"""Longest value in bytes that may be a model's name."""
MAX_DECODINGS = 4
"""Times that a name or a value is percent-decoded: one layer of servers each."""
MULTIPART, URLENCODED = "multipart/form-data", "application/x-www-form-urlencoded"
_PARAMETERS = re.compile(r'[^;]*((?:[ \t]*;[ \t]*[\w*-]+=(?:"[^"\\]*"|[^\s";,]+))*)[ \t]*;?[ \t]*', re.ASCII)
_STATED = re.compile(r';[ \t]*([\w*-]+)=(?:"([^"\\]*)"|([^\s";,]+))', re.ASCII)
_BOUNDARY = re.compile(r"[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]", re.ASCII)
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~\w-]+):[ \t]*([^\r\n\0]*)", re.ASCII)
_DISPOSITION = re.compile(
    rb"form-data((?:[ \t]*;[ \t]*[\w*-]+=(?:\"[^\"]*\"|[^\s\";]+))+)[ \t]*;?[ \t]*", re.IGNORECASE
)
_PARAMETER = re.compile(rb";[ \t]*([\w*-]+)=(?:\"([^\"]*)\"|([^\s\";]+))")
_PLAIN = frozenset({b"7bit", b"8bit", b"binary"})
_CHARSET = re.compile(rb"charset=\"?(?:utf-8|us-ascii)\"?", re.IGNORECASE)


class UnreadableFormError(ValueError):
    """Two servers could read the form differently; the text says why, as a phrase for people."""


@value
class Field:
    """A field: its ``name``, and its bytes."""

    name: bytes
    content: bytes
    media_type: bytes = b""
    """As its own header states it, in lower case."""
    file: bool = False


def models_in_query(query: str) -> tuple[str, ...]:
    """Every model that the query of a target names, by any reading."""
    found: dict[str, None] = {}
    for field in _pairs(query.encode("latin-1", "replace")):
        if _names_a_model(field.name):
            found |= dict.fromkeys(name for spelt in _decodings(field.content) for name in _spellings(spelt))
    return tuple(found)


def models_in_form(content_type: str, body: bytes) -> tuple[tuple[str, ...], tuple[Document, ...]]:
    """The models that the fields of a form name, and the JSON objects that stand in it, which may name more.

    ``content_type`` is that of the request. Raises UnreadableFormError.
    """
    kind = content_type.partition(";")[0].strip().lower()
    fields = _parts(content_type, body) if kind == MULTIPART else _urlencoded(body)
    models: dict[str, None] = {}
    documents: list[Document] = []
    for count, field in enumerate(fields):
        if count >= MAX_FIELDS or b"_charset_" in field.name.lower():
            raise UnreadableFormError("its form has too many fields or another character set")
        if _names_a_model(field.name):
            if b"charset" in field.media_type and not _CHARSET.search(field.media_type):
                raise UnreadableFormError("a field of its form is in another character set")
            models |= dict.fromkeys(_spellings(field.content))
        elif not field.file and (document := _document(field)) is not None:
            documents.append(document)
    return tuple(models), tuple(documents)


def _names_a_model(name: bytes) -> bool:
    """Whether a field of this name may name a model: however it is encoded, in any case, as a list (``model[]``)."""
    if len(name) > MAX_MODEL:
        return False
    return any(
        spelt.decode("latin-1").partition("[")[0].strip(" \t\"'").casefold() in NAMES for spelt in _decodings(name)
    )


def _decodings(text: bytes) -> Iterator[bytes]:
    """``text``, and what it is once it is percent-decoded so often as some server may."""
    yield text
    for _ in range(MAX_DECODINGS):
        further = unquote_to_bytes(text)
        if further == text:
            return
        yield (text := further)


def _spellings(content: bytes) -> list[str]:
    """The models that the value of a field names: itself, or what stands in it as JSON. Raises UnreadableFormError."""
    if len(content) > MAX_MODEL:
        raise UnreadableFormError("its form names a model that is too long")
    try:
        plain = content.decode().strip("\0 \t\r\n")
    except UnicodeDecodeError:
        raise UnreadableFormError("its form names a model that is no UTF-8") from None
    names = [plain]
    if plain[:1] in ('"', "[", "{"):
        try:
            held = orjson.loads(plain)
        except orjson.JSONDecodeError:
            held = None
        for each in held if isinstance(held, list) else [held]:
            name = each.get("model") if isinstance(each, dict) else each
            names += [name] if isinstance(name, str) else []
    names += [part.strip() for part in plain.split(",")] if "," in plain else []
    return [name.removeprefix("models/") for name in names if name]


def _document(field: Field) -> Document | None:
    """The JSON object that a field holds, if it does. Raises UnreadableFormError where it says so and does not."""
    declared = b"json" in field.media_type
    if not declared and field.content.lstrip()[:1] != b"{":
        return None
    try:
        document = orjson.loads(field.content)
    except orjson.JSONDecodeError:
        if declared:
            raise UnreadableFormError("a field of its form is called JSON and is none") from None
        return None
    if not isinstance(document, dict):
        return None
    if ambiguity(field.content, document) is not None:
        raise UnreadableFormError("a field of its form is JSON that readers differ on")
    return document


def _urlencoded(body: bytes) -> Iterator[Field]:
    """The fields of a form whose body is written as a query, by each of their readings."""
    for field in _pairs(body):
        for content in dict.fromkeys(_decodings(field.content)):
            yield Field(field.name, content)


def _pairs(text: bytes) -> Iterator[Field]:
    """What stands between ``&`` or ``;``, a ``+`` being a space (URL standard section 5.1)."""
    for pair in re.split(rb"[&;]", text):
        name, _, content = pair.partition(b"=")
        yield Field(name.replace(b"+", b" "), content.replace(b"+", b" "))


def _parts(content_type: str, body: bytes) -> Iterator[Field]:
    """The fields of a multipart body in its strict form: nothing before it, behind it, or read in two ways."""
    stated = _PARAMETERS.fullmatch(content_type)
    found = [(name.lower(), quoted or token) for name, quoted, token in _STATED.findall(stated[1])] if stated else []
    named = [text for name, text in found if name.startswith("boundary")]
    if len(named) != 1 or ("boundary", named[0]) not in found or not _BOUNDARY.fullmatch(named[0]):
        raise UnreadableFormError("its Content-Type does not say once where the fields of its form begin")
    delimiter = b"--" + named[0].encode()
    in_doubt = UnreadableFormError("readers could differ in where the fields of its form begin and end")
    if not body.startswith(delimiter):
        raise in_doubt
    at, seen = len(delimiter), 1
    while body[at : at + 2] == b"\r\n":
        end = body.find(b"\r\n" + delimiter, at + 2)
        blank = body.find(b"\r\n\r\n", at, end) if end >= 0 else -1
        if blank < 0:
            raise in_doubt
        yield _field(body[at + 2 : blank], body[blank + 4 : end])
        at, seen = end + 2 + len(delimiter), seen + 1
    if body[at:] not in (b"--", b"--\r\n") or body.count(delimiter) != seen:
        raise in_doubt


def _field(head: bytes, content: bytes) -> Field:
    """A part of a multipart body, by its header."""
    said: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n"):
        match = _FIELD.fullmatch(line)
        if match is None or match[1].lower() in said:
            raise UnreadableFormError("a field of its form has a header that readers differ on")
        said[match[1].lower()] = match[2].strip()
    encoding = said.get(b"content-transfer-encoding", b"binary").lower()
    media_type = said.get(b"content-type", b"").lower()
    if encoding not in _PLAIN or media_type.startswith(b"multipart/"):
        raise UnreadableFormError("a field of its form is encoded")
    match = _DISPOSITION.fullmatch(said.get(b"content-disposition", b""))
    parameters = _PARAMETER.findall(match[1]) if match is not None and b'\\"' not in match[1] else []
    names = [quoted or token for name, quoted, token in parameters if name.lower() == b"name"]
    strange = {name.lower() for name, _, _ in parameters} - {b"name", b"filename", b"filename*"}
    if len(names) != 1 or strange:
        raise UnreadableFormError("readers could differ in how a field of its form is called")
    return Field(names[0], content, media_type, any(name.lower()[:8] == b"filename" for name, _, _ in parameters))
