"""The families of wire protocols: one row each, from which everything that differs between them derives.

Owns what an upstream's ``protocol`` may be, whose prices it has, where its vendor is, how its clients find it, how its
errors look and where its credentials stand. How its messages are read stands in ``docket.providers``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ErrorShape = Literal["openai", "anthropic", "google"]
"""Whose error document a family's clients understand; ``docket.boundary.answers.refusals`` writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of wire protocols."""

    name: str
    """What ``[upstreams.NAME] protocol`` says, and the name of the built-in upstream."""
    vendor: str
    """Whose prices apply, unless the policy names another provider."""
    base_url: str
    """What the vendor's own SDK calls."""
    variables: tuple[str, ...]
    """Variables in which real clients read that address; the first one found in the parent gives the upstream's."""
    errors: ErrorShape = "openai"
    version: bytes = b""
    """The version segment that its paths need and that a client may leave out, with its slash; empty where none is."""
    credentials: tuple[bytes, ...] = (b"authorization",)
    """Header fields, in lower case, in which its clients put their key."""


FAMILIES: tuple[Family, ...] = (
    Family(
        name="openai",
        vendor="openai",
        base_url="https://api.openai.com/v1",
        variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        credentials=(b"authorization", b"api-key"),
    ),
    Family(
        name="anthropic",
        vendor="anthropic",
        base_url="https://api.anthropic.com",
        variables=("ANTHROPIC_BASE_URL",),
        errors="anthropic",
        version=b"/v1",
        credentials=(b"authorization", b"x-api-key"),
    ),
    Family(
        name="gemini",
        vendor="google",
        base_url="https://generativelanguage.googleapis.com",
        variables=("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_BASE"),
        errors="google",
        version=b"/v1beta",
        credentials=(b"authorization", b"x-goog-api-key"),
    ),
    Family(
        name="ollama",
        vendor="ollama",
        base_url="http://127.0.0.1:11434",
        variables=("OLLAMA_HOST",),
    ),
)
"""Every family; the first one is taken where nothing names one."""
BY_NAME = {family.name: family for family in FAMILIES}
