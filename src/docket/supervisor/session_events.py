"""What a session says first: who runs what, under which policy, pointed where.

Invariant: no argument, label, override or environment value is recorded before credentials are taken out of it; of the
environment only names are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from docket.boundary.server import Boundary
from docket.ledger.events import Continues, PolicyApplied, SessionStart
from docket.policy.document import digest
from docket.pricing.table import PriceTable
from docket.primitives.canonical import Json, JsonObject
from docket.supervisor.agent_setup import Adapted, adapt
from docket.supervisor.environment import Route, agent_environment, changed_names
from docket.supervisor.key_sources import Found
from docket.supervisor.request import RunRequest
from docket.supervisor.seal import Keys, host_name, session_start
from docket.supervisor.secrets import Secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The call of one session, ready to be recorded."""

    docket: str
    request: RunRequest
    secrets: Secrets
    policy: JsonObject
    """The policy document; its salts are this session's."""
    prices: PriceTable
    found: Found | None = None
    """The keys that are kept from the agent."""

    @property
    def identity(self) -> dict[str, Json]:
        """What the receipt and the session's start say alike: argv, cwd, label."""
        identity: dict[str, Json] = {
            "argv": cast("list[Json]", self.secrets.redact_argv(self.request.argv)),
            "cwd": str(self.request.cwd),
        }
        if self.request.label is not None:
            identity["label"] = self.secrets.redact(self.request.label)
        return identity

    @property
    def price_table(self) -> JsonObject:
        """``{digest, source, date}`` of the table in force."""
        return {"digest": self.prices.digest(), "source": self.prices.source, "date": self.prices.date}

    def adapted(self, boundary: Boundary) -> Adapted:
        """The agent's command line and environment, pointed at the boundary."""
        request = self.request
        routes = tuple(
            Route(name=upstream.name, protocol=upstream.protocol, base_url=boundary.base_url(upstream.name))
            for upstream in request.policy.upstreams
        )
        environment = agent_environment(request.environ, routes, self.docket)
        if self.found is not None:
            environment = self.found.without(environment, boundary.token)
        environment |= {
            "DOCKET_EVENTS_URL": boundary.events_url,
            "DOCKET_BUDGET_URL": boundary.budget_url,
            "DOCKET_OTLP_URL": boundary.telemetry_url,
        }
        return adapt(request.argv, environment, routes, cwd=request.cwd, agent=request.agent, enabled=request.adapt)

    def start(self, adapted: Adapted, keys: Keys, *, session: int, continues: Continues | None) -> SessionStart:
        """The ``session.start`` event."""
        private: dict[str, Json] = {
            **self.identity,
            "host": host_name(),
            "environment": cast("list[Json]", changed_names(self.request.environ, adapted.environment)),
        }
        if adapted.did or adapted.problems:
            private["adaptations"] = cast("list[Json]", [adapted.agent, *adapted.did, *adapted.problems])
        return session_start(
            docket=self.docket,
            keys=keys,
            policy=digest(self.policy),
            prices=self.prices.digest(),
            private=private,
            session=session,
            continues=continues,
        )

    def policy_applied(self) -> PolicyApplied:
        """The ``policy.applied`` event; its document is what a recovered receipt is built from."""
        overrides: Mapping[str, Json] = {
            key: self.secrets.redact(value) for key, value in self.request.overrides.items()
        }
        private: dict[str, Json] = {
            "overrides": dict(overrides),
            "document": self.policy,
            "prices": self.price_table,
        }
        if self.request.policy_file is not None:
            private["file"] = str(self.request.policy_file)
        return PolicyApplied(policy=digest(self.policy), private=private)
