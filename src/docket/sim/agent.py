"""The reference agent: a small program that calls a model as agents do. Used by the demo and by drills.

``python -m docket.sim.agent`` with ``DOCKET_AGENT_MODE``: *bounded* makes its calls and stops at the first error;
*runaway* goes on whatever it is told; *backoff* obeys temporary refusals and stops at final ones. Standard library
only, so that it starts at once.

Backoff is full jitter under a cap that doubles with each refusal; a ``Retry-After`` in seconds is a floor under it, and
a date is ignored: the clock on the wall may lie. Waits and hints go into the ledger as agent-asserted notes.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

Mode: TypeAlias = Literal["bounded", "runaway", "backoff"]
MODES: tuple[Mode, ...] = ("bounded", "runaway", "backoff")
BASE_SECONDS = 0.5
"""First cap of the jitter, as in the provider SDKs."""
TIMEOUT_SECONDS = 600.0
"""Longer than docket's own silence timeout, so that docket's answer is seen."""
MAX_ATTEMPTS = 100
"""Of one call in backoff mode: a drill must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment asks for."""

    base_url: str
    events_url: str | None = None
    mode: Mode = "bounded"
    calls: int = 3
    seed: int = 0
    max_sleep_seconds: float = 30.0
    model: str = "gpt-4o-mini"
    prompts: int = 0
    """So many different questions are asked in turn; 0 asks a new one each time."""
    key: str = "sk-none"
    count_file: str | None = None
    """Where the agent writes what it saw on the wire; ``docket chaos`` asks for it."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Settings:
        """Read ``DOCKET_AGENT_*`` and ``OPENAI_*``. Raises ValueError with a sentence for people."""
        mode = environ.get("DOCKET_AGENT_MODE", "bounded")
        found = next((known for known in MODES if known == mode), None)
        if found is None:
            raise ValueError(f"DOCKET_AGENT_MODE is {mode!r}; it is one of {', '.join(MODES)}")
        base_url = environ.get("OPENAI_BASE_URL", "")
        if urlsplit(base_url).scheme != "http":
            raise ValueError("OPENAI_BASE_URL is not an http:// address; run me under `docket run`")
        return cls(
            base_url=base_url,
            events_url=environ.get("DOCKET_EVENTS_URL"),
            mode=found,
            calls=_number(environ, "DOCKET_AGENT_CALLS", 1_000_000 if found == "runaway" else 3),
            seed=_number(environ, "DOCKET_AGENT_SEED", 0),
            max_sleep_seconds=_seconds(environ, "DOCKET_AGENT_MAX_SLEEP", 30.0),
            model=environ.get("DOCKET_AGENT_MODEL", "gpt-4o-mini"),
            prompts=_number(environ, "DOCKET_AGENT_PROMPTS", 0),
            key=environ.get("OPENAI_API_KEY", "sk-none"),
            count_file=environ.get("DOCKET_CHAOS_COUNT"),
        )


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, str(default))
    if not text.isdecimal():
        raise ValueError(f"{name} is {text!r}; it is a whole number")
    return int(text)


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, str(default))
    whole, _, part = text.partition(".")
    if not whole.isdecimal() or (part and not part.isdecimal()):
        raise ValueError(f"{name} is {text!r}; it is a number of seconds")
    return float(text)


@dataclass(slots=True)
class Backoff:
    """Full jitter under a doubling cap. Seeded, so a drill can be replayed."""

    random: random.Random
    max_seconds: float
    base_seconds: float = BASE_SECONDS

    def wait_seconds(self, refusals: int, hint: str | None) -> float:
        """How long to wait after the ``refusals``-th refusal (1, 2, ...) of a call that said ``hint``."""
        cap = min(self.max_seconds, self.base_seconds * 2.0 ** (refusals - 1))
        jitter = self.random.uniform(0.0, cap)
        return max(float(hint), jitter) if hint is not None and hint.isdecimal() else jitter


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; status 0 is no answer at all."""

    status: int
    retry_after: str | None = None
    final: bool = False
    text: str = ""

    @property
    def good(self) -> bool:
        """A whole 200 that is not an error document; whatever else it holds is for the model's user to judge."""
        if self.status != 200:
            return False
        try:
            document = json.loads(self.text)
        except ValueError:
            return True
        return not (isinstance(document, dict) and "error" in document)


@dataclass(slots=True)
class Count:
    """What the agent saw on the wire, printed as one JSON line at its end: the audit compares it with the ledger."""

    sent: int = 0
    ok: int = 0
    refused: int = 0
    failed: int = 0
    waits_ms: list[int] = field(default_factory=list)


class Agent:
    """One run of the agent."""

    def __init__(
        self,
        settings: Settings,
        post: Callable[[str, Mapping[str, str], bytes], Answer],
        sleep: Callable[[float], None],
    ) -> None:
        self._settings = settings
        self._post = post
        self._sleep = sleep
        self._backoff = Backoff(random.Random(settings.seed), settings.max_sleep_seconds)
        self.count = Count()

    def run(self) -> int:
        """Make the calls; gives the exit status."""
        for number in range(1, self._settings.calls + 1):
            answer = self._attempts(number) if self._settings.mode == "backoff" else self._call(number)
            if not answer.good and self._settings.mode != "runaway":
                print(f"call {number} ended with {answer.status}: {answer.text}", file=sys.stderr)  # noqa: T201 - a program's own output
                return 1
        return 0

    def _attempts(self, number: int) -> Answer:
        answer = self._call(number)
        for refusals in range(1, MAX_ATTEMPTS):
            if answer.good or answer.final or (400 <= answer.status < 500 and answer.status != 429):
                return answer
            wait = self._backoff.wait_seconds(refusals, answer.retry_after)
            self.count.waits_ms.append(round(wait * 1000))
            hint = "no hint" if answer.retry_after is None else f"hint {answer.retry_after}"
            self._note(f"call {number}: {answer.status}, {hint}, waiting {wait:.3f} s")
            self._sleep(wait)
            answer = self._call(number)
        return answer

    def _call(self, number: int) -> Answer:
        asked = number % self._settings.prompts if self._settings.prompts else number
        body = {"model": self._settings.model, "messages": [{"role": "user", "content": f"step {asked}"}]}
        headers = {"authorization": f"Bearer {self._settings.key}", "content-type": "application/json"}
        url = self._settings.base_url.rstrip("/") + "/chat/completions"
        self.count.sent += 1
        answer = self._post(url, headers, _encode(body))
        if answer.good:
            self.count.ok += 1
        elif '"docket_policy_denied"' in answer.text:
            self.count.refused += 1
        else:
            self.count.failed += 1
        return answer

    def _note(self, text: str) -> None:
        if self._settings.events_url is not None:
            body = _encode({"type": "note", "text": text})
            self._post(self._settings.events_url, {"content-type": "application/json"}, body)


def post(url: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """POST over a connection of its own; never raises for what a network may do."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("POST", parts.path, body, dict(headers))
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return Answer(status=0, text=type(error).__name__)
    finally:
        connection.close()
    return Answer(
        status=response.status,
        retry_after=response.headers.get("retry-after"),
        final=response.headers.get("x-should-retry") == "false",
        text=text,
    )


def _encode(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()  # noqa: TID251 - an agent's request is not docket's canonical form


def main() -> int:
    """Run as the environment says; prints what it counted as one JSON line on stdout."""
    try:
        settings = Settings.of(os.environ)
    except ValueError as error:
        print(f"docket.sim.agent: {error}", file=sys.stderr)  # noqa: T201 - a program's own output
        return 2
    agent = Agent(settings, post, time.sleep)  # noqa: TID251 - an agent that waits is what is simulated
    status = agent.run()
    seen = _encode(asdict(agent.count)).decode()
    print(seen)  # noqa: T201 - a program's own output
    if settings.count_file is not None:
        Path(settings.count_file).write_text(seen + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
