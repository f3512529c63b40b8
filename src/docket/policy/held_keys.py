"""``[keys]``: where ``docket run --hold-keys`` finds the keys that it keeps from the agent. docs/egress.md tells it."""

from __future__ import annotations

from dataclasses import dataclass

from docket.families import FAMILIES
from docket.policy.keys import key
from docket.policy.kinds import Text, Texts, show

KEY_VARIABLES = tuple(name for family in FAMILIES for name, _ in family.key_fields)
"""Variables in which clients read a key."""


@dataclass(frozen=True)
class Sources:
    """Places of keys: ``VARIABLE=PLACE``, each variable at most once."""

    place: str
    """What stands behind the equals sign."""

    @property
    def expects(self) -> str:
        return f'a list of "VARIABLE={self.place}", VARIABLE one of {", ".join(KEY_VARIABLES)}, each at most once'

    def read(self, value: object) -> tuple[str, ...]:
        entries = Texts().read(value)
        names = [entry.partition("=")[0] for entry in entries]
        for entry, name in zip(entries, names, strict=True):
            if name not in KEY_VARIABLES or not entry.partition("=")[2].strip() or names.count(name) > 1:
                raise ValueError(f"{show(name)}=... is not accepted; must be {self.expects}")
        return entries

    def read_text(self, text: str) -> tuple[str, ...]:
        return self.read([entry.strip() for entry in text.split(",") if entry.strip()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Where the keys are that --hold-keys keeps from the agent, besides docket's own variables; what stands here wins.

    Without --hold-keys nothing of it is read.
    """

    dotenv: str = key(
        Text(),
        "A file of NAME=VALUE lines, relative to the agent's working directory; docket's own variables win over it.",
        default=".env",
        private=True,
    )
    files: tuple[str, ...] = key(
        Sources("FILE"),
        "Files that hold one key each, relative to the agent's working directory.",
        default=(),
        private=True,
        example='["OPENAI_API_KEY=/run/secrets/openai"]',
    )
    commands: tuple[str, ...] = key(
        Sources("COMMAND"),
        "Commands that print one key each; split as a shell does, and run without one, before the agent starts.",
        default=(),
        private=True,
        example='["ANTHROPIC_API_KEY=op read op://work/anthropic/key"]',
    )
    keyring: tuple[str, ...] = key(
        Sources("SERVICE/USER"),
        "Entries of the system's keyring; needs the Python package keyring beside docket.",
        default=(),
        private=True,
        example='["GEMINI_API_KEY=gemini/me"]',
    )
