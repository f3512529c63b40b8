"""The policy of a run: frozen dataclasses, one a table of docket.toml, one field a key.

Invariant: a Policy that exists is whole and within range. To add a key, add a field with ``key(...)``: everything else
follows from it. The docstring of a table is the comment that ``docket init`` writes above it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias, get_args

from docket.families import BY_NAME, FAMILIES
from docket.policy.endurance import Endurance
from docket.policy.fleet import Fleet
from docket.policy.held_keys import Keys
from docket.policy.keys import key
from docket.policy.kinds import (
    Amount,
    Choice,
    Count,
    Flag,
    Names,
    Number,
    Optional,
    Paths,
    Seconds,
    Size,
    Text,
    Texts,
    Url,
)
from docket.policy.resilience import Health, Resilience
from docket.policy.usage import Cache, Usage
from docket.primitives.instant import Duration
from docket.primitives.money import Usd

BudgetMode: TypeAlias = Literal["usd", "quota"]
Unpriced: TypeAlias = Literal["refuse", "dearest", "count-only"]
HoldMode: TypeAlias = Literal["expected", "worst"]
OnBreach: TypeAlias = Literal["kill", "deny"]
Unmetered: TypeAlias = Literal["refuse", "forward"]
PROTOCOLS = tuple(BY_NAME)
"""Families of wire protocols that an upstream may speak."""
MAX_BODY_BYTES = 256 * 2**20
"""Largest recorded body: what the boundary holds of one request at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What this policy is called."""

    name: str = key(Text(), "Stands in the receipt.", default="default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How spending is counted."""

    mode: BudgetMode = key(
        Choice[BudgetMode](get_args(BudgetMode)),
        "usd: calls are priced. quota: for subscriptions; counts tokens and calls, shows no dollar figure at all.",
        default="usd",
    )
    unpriced: Unpriced = key(
        Choice[Unpriced](get_args(Unpriced)),
        "A call whose model has no known price, while max_usd is set: refuse it, price it at the dearest known model"
        " of that provider, or forward it and only count it (the receipt then says that the cost is a lower bound).",
        default="refuse",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Limits of one run. A cap that is left out does not exist."""

    max_usd: Usd | None = key(
        Optional(Amount()), "US dollars that the run may spend on model calls.", default=None, example="5.00"
    )
    max_tokens: int | None = key(
        Optional(Count()), "Tokens of all kinds together, in and out.", default=None, example="2_000_000"
    )
    max_model_calls: int | None = key(
        Optional(Count()), "Calls forwarded to a provider; refused ones do not count.", default=None, example="500"
    )
    max_wall_seconds: Duration | None = key(
        Optional(Seconds()),
        "Seconds on the monotonic clock from the start of the run; a stopped agent still uses them up.",
        default=None,
        example="3600",
    )
    hold: HoldMode = key(
        Choice[HoldMode](get_args(HoldMode)),
        "What is reserved for a call before it is forwarded. expected: a figure calibrated from this run's own calls;"
        " the cap may be passed by about one call. worst: the most that the call can cost by its own limits; the cap is"
        " never passed, and calls that nothing bounds are refused.",
        default="expected",
    )
    hold_wait_seconds: Duration = key(
        Seconds(Decimal(0), Decimal(600)),
        "How long a call that does not fit waits for others to settle, before it is refused for now (429). 0: not at"
        " all.",
        default=Duration(30_000_000),
    )
    cut_streams: bool = key(Flag(), "Cut answers under way at a breach, instead of letting them end.", default=False)
    warn_at: Decimal = key(
        Number(Decimal("0.01"), Decimal(1)),
        "Part of a cap at which a cap.warning event is recorded.",
        default=Decimal("0.8"),
    )
    on_breach: OnBreach = key(
        Choice[OnBreach](get_args(OnBreach)),
        "kill: stop the whole process tree once the answer that reached the cap was delivered."
        " deny: refuse further calls and let the process live. Either way the exit status is 42.",
        default="kill",
    )
    grace_seconds: Duration = key(
        Seconds(Decimal(0), Decimal(600)),
        "Between SIGTERM and SIGKILL, whenever docket stops the agent.",
        default=Duration(10_000_000),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Which models may be called, by whatever place names them (body, form, query, path, tools).

    Names may hold * and ?; deny wins over allow.
    """

    allow: tuple[str, ...] = key(
        Texts(), "If not empty, every other model is refused.", default=(), example='["claude-*", "gpt-5*"]'
    )
    deny: tuple[str, ...] = key(
        Texts(),
        "Refused, whatever allow says; also by a name without what stands before its last / and after its @. Names that"
        " stand for others at a provider (automatic routers, stored prompts) have to be denied themselves.",
        default=(),
        example='["*-pro"]',
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A provider that the agent may call.

    The agent finds it at the boundary under this name. An upstream of your own takes the place of the built-in one of
    the same protocol.
    """

    name: str
    given: bool = True
    """Whether the operator named the address, so that no variable of the environment replaces it."""
    base_url: str = key(
        Url(),
        "Exactly what the agent's own variable would hold: https://api.openai.com/v1, https://api.anthropic.com."
        " A user in it (https://user:password@host) is sent as Basic authorization in place of the agent's own, and"
        " never recorded.",
        private=True,
    )
    protocol: str = key(Choice(PROTOCOLS), "The wire protocol that it speaks.")
    provider: str | None = key(
        Optional(Text()), "Whose prices apply; by default the protocol's own vendor.", default=None, example='"azure"'
    )

    unmetered: Unmetered = key(
        Choice[Unmetered](get_args(Unmetered)),
        "Endpoints billed by a figure that docket cannot read (images, audio, batches, files), and those that it does"
        " not know, while max_usd is set: refuse them, or forward them and count them as calls (the receipt's cost is"
        " then a lower bound).",
        default="refuse",
    )

    models: tuple[str, ...] = key(
        Names(),
        "The models behind names of your own: deployments at Azure, inference profiles at Bedrock. [models] and prices"
        " then go by the model; what stands behind a name is yours to state, and nothing checks it but the answers.",
        default=(),
        example='{ team-blue = "gpt-4o" }',
    )

    @property
    def model_of(self) -> dict[str, str]:
        """The models behind names of the operator's own."""
        return {name: model for name, _, model in (pair.partition("=") for pair in self.models)}

    @property
    def vendor(self) -> str:
        """The provider's name in events and in the price table."""
        return self.provider or BY_NAME[self.protocol].vendor


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the record keeps besides digests. Bodies may hold whatever the agent read: off unless asked for."""

    record_requests: bool = key(Flag(), "Keep request bodies as files beside the ledger.", default=False)
    record_responses: bool = key(Flag(), "Keep response bodies as files beside the ledger.", default=False)
    max_body_bytes: int = key(Size(1, MAX_BODY_BYTES), "A longer body is not kept; its digest is.", default=16 * 2**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Which files are watched: digests before and after the run, changes by name in the record.

    Patterns are those of .gitignore, relative to the agent's working directory.
    """

    watch: tuple[str, ...] = key(
        Paths(), "Paths below the working directory; an empty list watches nothing.", default=(".",), private=True
    )
    ignore: tuple[str, ...] = key(
        Texts(),
        "Patterns of what is left out, of snapshots and restores too.",
        default=(),
        private=True,
        example='["data/", "*.sqlite"]',
    )
    deny_write: tuple[str, ...] = key(
        Texts(),
        "Patterns of what the agent must not change: watched whatever ignores it, and a change is a policy violation.",
        default=(),
        private=True,
        example='[".env", ".github/"]',
    )
    gitignore: bool = key(
        Flag(), "Leave out what .gitignore files left out when the run began; --snapshot keeps it all.", default=True
    )


BUILT_IN_UPSTREAMS = tuple(
    Upstream(name=family.name, given=False, base_url=family.base_url, protocol=family.name) for family in FAMILIES
)
"""What a run can reach when the policy names nothing: the address that each vendor's own SDK calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that a run is held to."""

    about: About = field(default_factory=About)
    budget: Budget = field(default_factory=Budget)
    caps: Caps = field(default_factory=Caps)
    models: Models = field(default_factory=Models)
    upstreams: tuple[Upstream, ...] = BUILT_IN_UPSTREAMS
    evidence: Evidence = field(default_factory=Evidence)
    files: Files = field(default_factory=Files)
    usage: Usage = field(default_factory=Usage)
    cache: Cache = field(default_factory=Cache)
    resilience: Resilience = field(default_factory=Resilience)
    health: Health = field(default_factory=Health)
    endurance: Endurance = field(default_factory=Endurance)
    keys: Keys = field(default_factory=Keys)
    fleet: Fleet = field(default_factory=Fleet)

    @property
    def name(self) -> str:
        return self.about.name

    @property
    def caps_usd(self) -> bool:
        """Whether dollars are capped, by this run's own cap or by a budget that it shares."""
        return self.budget.mode == "usd" and (self.caps.max_usd is not None or "usd" in self.fleet.limits)

    @property
    def caps_tokens(self) -> bool:
        """Whether tokens are."""
        return self.caps.max_tokens is not None or "tokens" in self.fleet.limits

    def upstream(self, name: str) -> Upstream | None:
        """The upstream called ``name``."""
        return next((upstream for upstream in self.upstreams if upstream.name == name), None)


TABLES: dict[str, tuple[str, type]] = {
    "policy": ("about", About),
    "budget": ("budget", Budget),
    "caps": ("caps", Caps),
    "models": ("models", Models),
    "evidence": ("evidence", Evidence),
    "files": ("files", Files),
    "usage": ("usage", Usage),
    "cache": ("cache", Cache),
    "resilience": ("resilience", Resilience),
    "health": ("health", Health),
    "endurance": ("endurance", Endurance),
    "keys": ("keys", Keys),
    "fleet": ("fleet", Fleet),
}
"""Tables of docket.toml: the field of Policy that holds each, and its dataclass. ``upstreams`` is a table of tables."""
