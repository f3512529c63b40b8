"""What a provider says, in the words of each wire protocol: whole answers and event streams. Pure.

Shapes follow the providers' API references (OpenAI chat completions and responses, Anthropic messages, Gemini
generateContent, Ollama chat); the figures are whatever the script says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import orjson

Document: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer of the script; every member may stand in a script file or in the ``X-Sim-Step`` header."""

    status: int = 200
    text: str = "Hello from the scripted provider."
    model: str | None = None
    """Model that the answer names; the request's own by default."""
    input_tokens: int | None = None
    """Default: one for every four bytes of the request body."""
    output_tokens: int | None = None
    """Default: one for every word of the text."""
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    tool: str | None = None
    """Name of a tool to call instead of talking."""
    tool_arguments: Document = field(default_factory=dict)
    latency_ms: int = 0
    """Before the head."""
    pace_ms: int = 0
    """Between the events of a stream."""
    fault: str = ""
    """``reset``, ``close``, ``hang``, ``cut`` (mid-body), ``error-event``, ``no-terminator``, ``no-usage``."""
    headers: dict[str, str] = field(default_factory=dict)
    """Further header fields of the answer."""
    body: str | None = None
    """A body to send as it stands, instead of one in the protocol's shape."""
    times: int = 1
    """How many requests get this step; 0 is all from here on."""

    def output(self) -> int:
        return len(self.text.split()) if self.output_tokens is None else self.output_tokens


@dataclass(frozen=True, slots=True)
class Asked:
    """What an answer needs to know of its request."""

    path: str
    size: int
    document: Document
    number: int

    @property
    def model(self) -> str:
        named = self.document.get("model")
        return named if isinstance(named, str) else "sim-1"


@dataclass(frozen=True, slots=True)
class Spoken:
    """An answer in the shape of its protocol: one body, or the events of a stream with its content type."""

    content_type: str
    events: tuple[bytes, ...]
    streamed: bool
    tokens: tuple[int, int]
    """Input (with cached parts) and output, as the answer states them."""


def speak(asked: Asked, step: Step) -> Spoken:
    """The answer to a successful request."""
    path = asked.path
    if path.endswith("/chat/completions"):
        return _spoken(asked, step, _chat, _chat_stream)
    if path.endswith("/messages"):
        return _spoken(asked, step, _messages, _messages_stream)
    if path.endswith("/responses"):
        return _spoken(asked, step, _responses, _responses_stream)
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return _spoken(asked, step, _gemini, _gemini_stream, path.endswith(":streamGenerateContent"))
    if path.endswith("/completions"):
        return _spoken(asked, step, _completion, _completion_stream)
    if path.endswith(("/api/chat", "/api/generate")):
        return _spoken(asked, step, _ollama, _ollama_stream, asked.document.get("stream", True), "application/x-ndjson")
    if path.endswith("/count_tokens"):
        return _plain({"input_tokens": _input(asked, step)})
    if path.endswith("/models"):
        return _plain({"object": "list", "data": [{"id": asked.model, "object": "model", "owned_by": "sim"}]})
    if path.endswith("/embeddings"):
        given = _input(asked, step)
        usage = {"prompt_tokens": given, "total_tokens": given}
        data = [{"object": "embedding", "index": 0, "embedding": [0.0, 1.0]}]
        listed = _plain({"object": "list", "data": data, "model": asked.model, "usage": usage})
        return replace(listed, tokens=(given, 0))
    return _plain({"ok": True})


def failure(path: str, status: int) -> bytes:
    """The body of an error answer in the shape of the protocol that ``path`` speaks."""
    if path.endswith("/messages"):
        kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(status, "overloaded_error" if status == 529 else "api_error")
        return orjson.dumps({"type": "error", "error": {"type": kind, "message": "scripted failure"}})
    kind = "rate_limit_exceeded" if status == 429 else "server_error"
    return orjson.dumps({"error": {"message": "scripted failure", "type": kind, "param": None, "code": kind}})


Whole: TypeAlias = Callable[[Asked, Step], Document]
Stream: TypeAlias = Callable[[Asked, Step], list[bytes]]


def _spoken(
    asked: Asked,
    step: Step,
    whole: Whole,
    stream: Stream,
    streamed: bool | None = None,
    content_type: str = "text/event-stream; charset=utf-8",
) -> Spoken:
    tokens = (_input(asked, step) + step.cache_read + step.cache_write_5m + step.cache_write_1h, step.output())
    if asked.document.get("stream") is True if streamed is None else streamed:
        return Spoken(content_type, tuple(stream(asked, step)), True, tokens)
    return Spoken("application/json", (orjson.dumps(whole(asked, step)),), False, tokens)


def _plain(document: Document) -> Spoken:
    return Spoken("application/json", (orjson.dumps(document),), False, (0, 0))


def _input(asked: Asked, step: Step) -> int:
    return -(-asked.size // 4) if step.input_tokens is None else step.input_tokens


def _sse(document: Document, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + orjson.dumps(document) + b"\n\n"


def _pieces(text: str) -> list[str]:
    words = text.split(" ")
    return [word if at == 0 else " " + word for at, word in enumerate(words)]


# ── OpenAI chat completions ──


def _chat_usage(asked: Asked, step: Step) -> Document:
    given = _input(asked, step) + step.cache_read
    return {
        "prompt_tokens": given,
        "completion_tokens": step.output(),
        "total_tokens": given + step.output(),
        "prompt_tokens_details": {"cached_tokens": step.cache_read},
    }


def _chat_tool(asked: Asked, step: Step) -> Document:
    arguments = orjson.dumps(step.tool_arguments).decode()
    return {
        "id": f"call_{asked.number}",
        "type": "function",
        "function": {"name": step.tool, "arguments": arguments},
    }


def _chat(asked: Asked, step: Step) -> Document:
    message: Document = {"role": "assistant", "content": None if step.tool else step.text}
    if step.tool:
        message["tool_calls"] = [_chat_tool(asked, step)]
    finish = "tool_calls" if step.tool else "stop"
    return {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion",
        "created": 1,
        "model": step.model or asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    } | ({} if step.fault == "no-usage" else {"usage": _chat_usage(asked, step)})


def _chat_stream(asked: Asked, step: Step) -> list[bytes]:
    base = {"id": f"chatcmpl-{asked.number}", "object": "chat.completion.chunk", "created": 1}
    base["model"] = step.model or asked.model

    def chunk(delta: Document, finish: str | None = None) -> bytes:
        return _sse({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    events = [chunk({"role": "assistant", "content": ""})]
    if step.tool:
        events.append(chunk({"tool_calls": [{"index": 0, **_chat_tool(asked, step)}]}))
    else:
        events += [chunk({"content": piece}) for piece in _pieces(step.text)]
    if step.fault == "error-event":
        return [*events, _sse({"error": {"message": "scripted failure", "type": "server_error", "code": 500}})]
    events.append(chunk({}, "tool_calls" if step.tool else "stop"))
    options = asked.document.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") and step.fault != "no-usage":
        events.append(_sse({**base, "choices": [], "usage": _chat_usage(asked, step)}))
    return events if step.fault == "no-terminator" else [*events, b"data: [DONE]\n\n"]


# ── Anthropic messages ──


def _messages_usage(asked: Asked, step: Step, output: int) -> Document:
    written = step.cache_write_5m + step.cache_write_1h
    return {
        "input_tokens": _input(asked, step),
        "cache_read_input_tokens": step.cache_read,
        "cache_creation_input_tokens": written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": step.cache_write_5m,
            "ephemeral_1h_input_tokens": step.cache_write_1h,
        },
        "output_tokens": output,
    }


def _messages_tool(asked: Asked, step: Step) -> Document:
    return {"type": "tool_use", "id": f"toolu_{asked.number}", "name": step.tool, "input": step.tool_arguments}


def _messages(asked: Asked, step: Step) -> Document:
    content = _messages_tool(asked, step) if step.tool else {"type": "text", "text": step.text}
    return {
        "id": f"msg_{asked.number}",
        "type": "message",
        "role": "assistant",
        "model": step.model or asked.model,
        "content": [content],
        "stop_reason": "tool_use" if step.tool else "end_turn",
        "stop_sequence": None,
        "usage": _messages_usage(asked, step, step.output()),
    }


def _messages_stream(asked: Asked, step: Step) -> list[bytes]:
    def event(name: str, **members: Any) -> bytes:
        return _sse({"type": name, **members}, name)

    start = _messages(asked, step) | {"content": [], "stop_reason": None, "usage": _messages_usage(asked, step, 1)}
    events = [event("message_start", message=start)]
    if step.tool:
        block = _messages_tool(asked, step) | {"input": {}}
        text = orjson.dumps(step.tool_arguments).decode()
        deltas: list[Document] = [{"type": "input_json_delta", "partial_json": text}]
    else:
        block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(step.text)]
    events.append(event("content_block_start", index=0, content_block=block))
    events.append(event("ping"))
    events += [event("content_block_delta", index=0, delta=delta) for delta in deltas]
    if step.fault == "error-event":
        return [*events, event("error", error={"type": "overloaded_error", "message": "scripted failure"})]
    events.append(event("content_block_stop", index=0))
    reason = "tool_use" if step.tool else "end_turn"
    usage = {"output_tokens": step.output()}
    events.append(event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage))
    return events if step.fault == "no-terminator" else [*events, event("message_stop")]


# ── OpenAI responses ──


def _responses(asked: Asked, step: Step) -> Document:
    given = _input(asked, step) + step.cache_read
    part = {"type": "output_text", "text": step.text, "annotations": []}
    message = {"type": "message", "id": f"msg_{asked.number}", "status": "completed", "role": "assistant"}
    return {
        "id": f"resp_{asked.number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": step.model or asked.model,
        "output": [{**message, "content": [part]}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": step.cache_read},
            "output_tokens": step.output(),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + step.output(),
        },
    }


def _responses_stream(asked: Asked, step: Step) -> list[bytes]:
    whole = _responses(asked, step)
    started = whole | {"status": "in_progress", "output": [], "usage": None}
    item = f"msg_{asked.number}"
    events: list[Document] = [{"type": "response.created", "response": started}]
    place = {"item_id": item, "output_index": 0, "content_index": 0}
    opened = {"id": item, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    events.append({"type": "response.output_item.added", "output_index": 0, "item": opened})
    part = {"type": "output_text", "text": "", "annotations": []}
    events.append({"type": "response.content_part.added", **place, "part": part})
    events += [{"type": "response.output_text.delta", **place, "delta": piece} for piece in _pieces(step.text)]
    events.append({"type": "response.output_text.done", **place, "text": step.text})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]})
    if step.fault == "error-event":
        failed = {"code": "server_error", "message": "scripted failure"}
        events.append({"type": "response.failed", "response": started | {"status": "failed", "error": failed}})
    elif step.fault != "no-terminator":
        events.append({"type": "response.completed", "response": whole})
    return [_sse({**event, "sequence_number": at}, event["type"]) for at, event in enumerate(events)]


# ── Gemini ──


def _gemini(asked: Asked, step: Step) -> Document:
    given = _input(asked, step) + step.cache_read
    usage = {"promptTokenCount": given, "candidatesTokenCount": step.output()}
    usage |= {"totalTokenCount": given + step.output(), "cachedContentTokenCount": step.cache_read}
    call = {"functionCall": {"name": step.tool, "args": dict(step.tool_arguments)}}
    content = {"role": "model", "parts": [call if step.tool else {"text": step.text}]}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    name = step.model or asked.path.rpartition("/")[2].partition(":")[0]
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": name}


def _gemini_stream(asked: Asked, step: Step) -> list[bytes]:
    whole = _gemini(asked, step)
    parts = [{"content": {"role": "model", "parts": [{"text": piece}]}, "index": 0} for piece in _pieces(step.text)]
    documents = [{"candidates": [part], "modelVersion": whole["modelVersion"]} for part in parts[:-1]]
    documents.append(whole | {"candidates": [{**parts[-1], "finishReason": "STOP"}]})
    return [b"data: " + orjson.dumps(document) + b"\r\n\r\n" for document in documents]


# ── legacy completions ──


def _completion(asked: Asked, step: Step) -> Document:
    choice = {"index": 0, "text": step.text, "logprobs": None, "finish_reason": "stop"}
    return {
        "id": f"cmpl-{asked.number}",
        "object": "text_completion",
        "created": 1,
        "model": step.model or asked.model,
        "choices": [choice],
        "usage": _chat_usage(asked, step),
    }


def _completion_stream(asked: Asked, step: Step) -> list[bytes]:
    whole = _completion(asked, step)
    chunk = {name: value for name, value in whole.items() if name != "usage"}
    events = [_sse({**chunk, "choices": [{**chunk["choices"][0], "text": piece}]}) for piece in _pieces(step.text)]
    return [*events, b"data: [DONE]\n\n"]


# ── Ollama ──


def _ollama_text(asked: Asked, text: str) -> Document:
    """What holds the text: ``message`` at /api/chat, ``response`` at /api/generate."""
    if asked.path.endswith("/api/generate"):
        return {"response": text}
    return {"message": {"role": "assistant", "content": text}}


def _ollama(asked: Asked, step: Step) -> Document:
    return {
        "model": step.model or asked.model,
        "created_at": "2026-01-01T00:00:00Z",
        **_ollama_text(asked, step.text),
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": _input(asked, step),
        "eval_count": step.output(),
    }


def _ollama_stream(asked: Asked, step: Step) -> list[bytes]:
    base = {"model": step.model or asked.model, "created_at": "2026-01-01T00:00:00Z"}
    lines: list[Document] = [{**base, **_ollama_text(asked, piece), "done": False} for piece in _pieces(step.text)]
    if step.fault != "no-terminator":
        lines.append(_ollama(asked, step) | _ollama_text(asked, ""))
    return [orjson.dumps(line) + b"\n" for line in lines]
