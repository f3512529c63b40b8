"""The families of wire protocols: one row each, from which everything that differs between them derives.

Owns what an upstream's ``protocol`` may be, whose prices it has, where its vendor is, how its clients find it, how its
errors look and where its credentials stand. How its messages are read stands in ``docket.providers``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

ErrorShape = Literal["openai", "anthropic", "google"]
"""Whose error document a family's clients understand; ``docket.boundary.answers.refusals`` writes them."""


OFF = ("", "0", "false")
"""Values of a switch that is not on."""
_PLACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
"""A label of a host name (RFC 1123 section 2.1): nothing else may get into an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of wire protocols."""

    name: str
    """What ``[upstreams.NAME] protocol`` says, and the name of the built-in upstream."""
    vendor: str
    """Whose prices apply, unless the policy names another provider."""
    base_url: str
    """What the vendor's own SDK calls; ``{}`` in it stands for the value of one of ``places``."""
    variables: tuple[str, ...]
    """Variables in which real clients read that address; the first one found in the parent gives the upstream's."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """The path that the value of a variable has in place of the base URL's, for those whose clients add another one."""
    always: bool = True
    """Whether every run has the built-in upstream; else only where one of ``variables`` or ``keys`` is set."""
    keys: tuple[str, ...] = ()
    """Variables by which its clients are known: their keys, and switches that turn them to it."""
    places: tuple[str, ...] = ()
    """Variables in which its clients find the region or resource that stands in ``base_url``; the first one counts."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """The addresses of places that have one of another kind; under "" that of no place, where there is one."""
    deployments: bool = False
    """Whether requests name deployments, whose models only the policy or an answer knows."""
    like: tuple[str, ...] = ()
    """Families whose billed paths it has besides its own, with or without a version before them. What is free at those
    need not be free here."""
    errors: ErrorShape = "openai"
    version: bytes = b""
    """The version segment that its paths need and that a client may leave out, with its slash; empty where none is."""
    credentials: tuple[bytes, ...] = (b"authorization",)
    """Header fields, in lower case, in which its clients put their key."""
    key_fields: tuple[tuple[str, bytes], ...] = ()
    """Variables in which real clients read a key, each with the header field in which they send it."""
    key_query: bytes | None = None
    """The member of a query in which clients may send a key instead."""

    def used(self, environ: Mapping[str, str]) -> bool:
        """Whether a run with ``environ`` has the built-in upstream although no variable gives its address."""
        return self.always or any(environ.get(key, "") not in OFF for key in self.keys)

    def address(self, environ: Mapping[str, str]) -> str | None:
        """The vendor's address by ``environ``; None where that needs a place and nothing names one."""
        if "{}" not in self.base_url:
            return self.base_url
        place = next((value for variable in self.places if (value := environ.get(variable, ""))), "")
        known = self.addresses.get(place)
        return known or (self.base_url.format(place) if _PLACE.fullmatch(place) else None)

    def given(self, variable: str, url: str) -> str:
        """The base URL that ``url`` in ``variable`` means."""
        return self._exchanged(url, self.paths.get(variable), urlsplit(self.base_url).path)

    def value(self, variable: str, base_url: str) -> str:
        """What ``variable`` has to hold for its clients to reach ``base_url``."""
        return self._exchanged(base_url, urlsplit(self.base_url).path, self.paths.get(variable))

    @staticmethod
    def _exchanged(url: str, end: str | None, other: str | None) -> str:
        """``url`` with ``other`` in place of ``end`` behind it, as far as it ends so; None changes nothing."""
        if end is None or other is None or not (url := url.rstrip("/")).endswith(end):
            return url
        return url.removesuffix(end) + other


def _openai_like(name: str, vendor: str, base_url: str, *variables: str, key: str = "", **paths: str) -> Family:
    """A router or server that speaks like OpenAI, and that a run has where its key or address is set."""
    return Family(
        name=name,
        vendor=vendor,
        base_url=base_url,
        variables=variables,
        paths=paths,
        always=False,
        keys=(key,) if key else (),
        key_fields=((key, b"authorization"),) if key else (),
        like=("openai",),
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        name="openai",
        vendor="openai",
        base_url="https://api.openai.com/v1",
        variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        credentials=(b"authorization", b"api-key"),
        key_fields=(("OPENAI_API_KEY", b"authorization"), ("CODEX_API_KEY", b"authorization")),
    ),
    Family(
        name="anthropic",
        vendor="anthropic",
        base_url="https://api.anthropic.com",
        variables=("ANTHROPIC_BASE_URL",),
        errors="anthropic",
        version=b"/v1",
        credentials=(b"authorization", b"x-api-key"),
        key_fields=(("ANTHROPIC_API_KEY", b"x-api-key"), ("ANTHROPIC_AUTH_TOKEN", b"authorization")),
    ),
    Family(
        name="gemini",
        vendor="google",
        base_url="https://generativelanguage.googleapis.com",
        variables=("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_BASE"),
        errors="google",
        version=b"/v1beta",
        credentials=(b"authorization", b"x-goog-api-key"),
        key_fields=(("GEMINI_API_KEY", b"x-goog-api-key"), ("GOOGLE_API_KEY", b"x-goog-api-key")),
        key_query=b"key",
    ),
    Family(
        name="ollama",
        vendor="ollama",
        base_url="http://127.0.0.1:11434",
        variables=("OLLAMA_HOST",),
        key_fields=(("OLLAMA_API_KEY", b"authorization"),),
    ),
    _openai_like(
        "openrouter", "openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_BASE", key="OPENROUTER_API_KEY"
    ),
    _openai_like("deepseek", "deepseek", "https://api.deepseek.com", "DEEPSEEK_API_BASE", key="DEEPSEEK_API_KEY"),
    _openai_like("mistral", "mistral", "https://api.mistral.ai/v1", "MISTRAL_API_BASE", key="MISTRAL_API_KEY"),
    _openai_like("xai", "x-ai", "https://api.x.ai/v1", "XAI_API_BASE", key="XAI_API_KEY"),
    _openai_like(
        "groq",
        "groq",
        "https://api.groq.com/openai/v1",
        "GROQ_BASE_URL",
        "GROQ_API_BASE",
        key="GROQ_API_KEY",
        GROQ_BASE_URL="",
    ),
    _openai_like(
        "together",
        "together",
        "https://api.together.ai/v1",
        "TOGETHER_BASE_URL",
        "TOGETHER_AI_API_BASE",
        key="TOGETHER_API_KEY",
        TOGETHER_BASE_URL="",
    ),
    _openai_like(
        "fireworks",
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_BASE",
        key="FIREWORKS_API_KEY",
    ),
    _openai_like(
        "cerebras",
        "cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_BASE_URL",
        "CEREBRAS_API_BASE",
        key="CEREBRAS_API_KEY",
        CEREBRAS_BASE_URL="",
    ),
    _openai_like("vllm", "vllm", "http://127.0.0.1:8000/v1", "HOSTED_VLLM_API_BASE"),
    _openai_like("llamacpp", "llamacpp", "http://127.0.0.1:8080/v1"),
    _openai_like("lmstudio", "lmstudio", "http://127.0.0.1:1234/v1", "LM_STUDIO_API_BASE"),
    Family(
        name="azure",
        vendor="azure",
        base_url="https://{}.openai.azure.com",
        variables=("AZURE_OPENAI_ENDPOINT",),
        always=False,
        keys=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
        key_fields=(("AZURE_OPENAI_API_KEY", b"api-key"), ("AZURE_OPENAI_AD_TOKEN", b"authorization")),
        places=("AZURE_RESOURCE_NAME",),
        like=("openai", "anthropic"),
        deployments=True,
        credentials=(b"authorization", b"api-key"),
    ),
    Family(
        name="vertex",
        vendor="google",
        base_url="https://{}-aiplatform.googleapis.com",
        variables=("GOOGLE_VERTEX_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL"),
        paths={"ANTHROPIC_VERTEX_BASE_URL": "/v1"},
        always=False,
        keys=("GOOGLE_GENAI_USE_VERTEXAI", "CLAUDE_CODE_USE_VERTEX", "ANTHROPIC_VERTEX_PROJECT_ID"),
        places=("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION"),
        addresses={
            "": "https://aiplatform.googleapis.com",
            "global": "https://aiplatform.googleapis.com",
            "us": "https://aiplatform.us.rep.googleapis.com",
            "eu": "https://aiplatform.eu.rep.googleapis.com",
        },
        like=("gemini", "anthropic"),
        errors="google",
        credentials=(b"authorization", b"x-goog-api-key"),
    ),
)
"""Every family; the first one is taken where nothing names one."""
BY_NAME = {family.name: family for family in FAMILIES}
