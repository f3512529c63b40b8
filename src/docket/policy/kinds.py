"""Kinds of policy values: what each reads from TOML or a flag, how it is written back, what it refuses.

Invariant: what ``read`` accepts, ``to_toml`` writes so that it reads back equal. Every refusal is a ValueError whose
text says what was expected; the caller adds the place. Floats never appear: TOML is parsed with exact decimals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from docket.primitives.canonical import Json
from docket.primitives.instant import Duration
from docket.primitives.money import PICO, Usd

T = TypeVar("T")
W = TypeVar("W", bound=str)
T_co = TypeVar("T_co", covariant=True)

Toml = bool | int | str | Decimal | list[str]
"""A value of the policy file, floats as exact decimals."""

MAX_USD = 1_000_000
"""A cap above a million dollars is a slip of the keyboard."""
MAX_COUNT = 10**12
"""A trillion tokens or calls: beyond any run."""
MAX_SECONDS = 366 * 24 * 3600
"""A leap year: beyond any run."""
MAX_TEXT = 256
"""Characters of a name or a pattern."""
MAX_LIST = 1024
"""Entries of a list."""
_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_TIME_UNITS = {"s": 1, "m": 60, "h": 3600}
_SIZE = re.compile(r"([0-9]{1,15}) ?([KMG]i?B|B|)")


class Kind(Protocol[T_co]):
    """One kind of value."""

    @property
    def expects(self) -> str:
        """What is accepted, as the end of "must be ..."."""
        ...

    def read(self, value: object) -> T_co:
        """The value that TOML's ``value`` means. Raises ValueError."""
        ...

    def read_text(self, text: str) -> T_co:
        """The value that a flag's ``text`` means. Raises ValueError."""
        ...


def show(value: object) -> str:
    """``value`` as it would be written in TOML or on a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    return str(value)


def _refuse(value: object, expects: str) -> ValueError:
    shown = show(value)
    return ValueError(f"{shown if len(shown) <= 80 else shown[:77] + '...'} is not accepted; must be {expects}")


def _number(value: object) -> Decimal | None:
    """``value`` as a finite decimal, or None."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = Decimal(value)
    return number if number.is_finite() else None


def _number_of(text: str) -> object:
    try:
        return Decimal(text.replace("_", ""))
    except InvalidOperation:
        return text


def _exact(number: Decimal, per_unit: int) -> int | None:
    """``number`` x ``per_unit`` where that is a whole number and not absurdly long, else None."""
    if number.adjusted() > 18 or number.adjusted() < -18:
        return 0 if number == 0 else None
    scaled = number * per_unit
    return int(scaled) if scaled == scaled.to_integral_value() else None


@dataclass(frozen=True)
class Flag:
    """true or false."""

    expects: str = "true or false"

    def read(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise _refuse(value, self.expects)
        return value

    def read_text(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise _refuse(text, self.expects)
        return text == "true"


@dataclass(frozen=True)
class Choice(Generic[W]):
    """One of a few words."""

    words: tuple[W, ...]

    @property
    def expects(self) -> str:
        return " or ".join(f'"{word}"' for word in self.words)

    def read(self, value: object) -> W:
        for word in self.words:
            if value == word:
                return word
        raise _refuse(value, self.expects)

    read_text = read


@dataclass(frozen=True)
class Choices:
    """Some of a few words, each once; a flag gives them separated by commas."""

    words: tuple[str, ...]

    @property
    def expects(self) -> str:
        return f"a list of some of {', '.join(self.words)}, each at most once"

    def read(self, value: object) -> tuple[str, ...]:
        words = [word for word in self.words if isinstance(value, list) and word in value]
        if not isinstance(value, list) or len(words) != len(value):
            raise _refuse(value, self.expects)
        return tuple(words)

    def read_text(self, text: str) -> tuple[str, ...]:
        return self.read([entry.strip() for entry in text.split(",") if entry.strip()])


@dataclass(frozen=True)
class Address:
    """Where to listen: ``ADDR:PORT``, an IPv6 address in brackets."""

    expects: str = "an address and a port such as 0.0.0.0:9464 or [::]:9464"

    def read(self, value: object) -> str:
        host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        sound = bool(colon and bare) and port.isascii() and port.isdecimal() and int(port) < 65536
        if not sound or not isinstance(value, str) or not value.isprintable() or (":" in bare) != (bare != host):
            raise _refuse(value, self.expects)
        return value

    read_text = read


@dataclass(frozen=True)
class Amount:
    """US dollars, above 0."""

    expects: str = f"an amount of US dollars above 0 and at most {MAX_USD}, with at most 12 decimal places"

    def read(self, value: object) -> Usd:
        number = _number(value)
        pico = None if number is None else _exact(number, PICO)
        if pico is None or not 0 < pico <= MAX_USD * PICO:
            raise _refuse(value, self.expects)
        return Usd(pico)

    def read_text(self, text: str) -> Usd:
        return self.read(_number_of(text.removeprefix("$")))


@dataclass(frozen=True)
class Count:
    """A whole number in a range, both ends included."""

    least: int = 1
    most: int = MAX_COUNT

    @property
    def expects(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def read(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            raise _refuse(value, self.expects)
        return value

    def read_text(self, text: str) -> int:
        number = _number_of(text)
        whole = _exact(number, 1) if isinstance(number, Decimal) and number.is_finite() else None
        return self.read(text if whole is None else whole)


@dataclass(frozen=True)
class Size:
    """Bytes: a whole number, or a string such as "16 MiB"."""

    least: int
    most: int

    @property
    def expects(self) -> str:
        return f'a number of bytes (or a size such as "16 MiB") from {self.least} to {self.most}'

    def read(self, value: object) -> int:
        size = value
        if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
            size = int(match[1]) * _UNITS[match[2]]
        if isinstance(size, bool) or not isinstance(size, int) or not self.least <= size <= self.most:
            raise _refuse(value, self.expects)
        return size

    read_text = read


@dataclass(frozen=True)
class Seconds:
    """A length of time in seconds, in a range, both ends included; a flag may say 90s, 15m or 2h."""

    least: Decimal = Decimal("0.001")
    most: Decimal = Decimal(MAX_SECONDS)

    @property
    def expects(self) -> str:
        return f"a number of seconds from {self.least} to {self.most}"

    def read(self, value: object) -> Duration:
        number = _number(value)
        us = None if number is None else _exact(number, 1_000_000)
        if number is None or us is None or not self.least <= number <= self.most:
            raise _refuse(value, self.expects)
        return Duration(us)

    def read_text(self, text: str) -> Duration:
        factor = _TIME_UNITS.get(text[-1:], 0)
        number = _number_of(text[:-1]) if factor else None
        return self.read(number * factor if isinstance(number, Decimal) else _number_of(text))


@dataclass(frozen=True)
class Number:
    """An exact decimal in a range, both ends included."""

    least: Decimal
    most: Decimal
    places: int = 6

    @property
    def expects(self) -> str:
        return f"a number from {self.least} to {self.most}, with at most {self.places} decimal places"

    def read(self, value: object) -> Decimal:
        number = _number(value)
        if number is None or not self.least <= number <= self.most or _exact(number, 10**self.places) is None:
            raise _refuse(value, self.expects)
        return number.normalize()

    def read_text(self, text: str) -> Decimal:
        return self.read(_number_of(text))


@dataclass(frozen=True)
class Text:
    """A printable string."""

    least: int = 1

    @property
    def expects(self) -> str:
        return f"a string of {self.least} to {MAX_TEXT} printable characters"

    def read(self, value: object) -> str:
        if not isinstance(value, str) or not self.least <= len(value) <= MAX_TEXT or not value.isprintable():
            raise _refuse(value, self.expects)
        return value

    read_text = read


@dataclass(frozen=True)
class Texts:
    """A list of printable strings; a flag gives them separated by commas."""

    expects: str = f"a list of at most {MAX_LIST} strings of 1 to {MAX_TEXT} printable characters"

    def read(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or len(value) > MAX_LIST:
            raise _refuse(value, self.expects)
        return tuple(Text().read(entry) for entry in value)

    def read_text(self, text: str) -> tuple[str, ...]:
        return self.read([entry.strip() for entry in text.split(",") if entry.strip()])


@dataclass(frozen=True)
class Names:
    """What names stand for: a table, or a list of ``NAME=MEANING``, in which form it is kept."""

    expects: str = 'a table of names such as {team-blue = "gpt-4o"}, or a list such as ["team-blue=gpt-4o"]'

    def read(self, value: object) -> tuple[str, ...]:
        pairs = value
        if isinstance(value, dict):
            if not all(isinstance(meant, str) and "=" not in name for name, meant in value.items()):
                raise _refuse(value, self.expects)
            pairs = [f"{name}={meant}" for name, meant in value.items()]
        read = Texts().read(pairs)
        names = [pair.partition("=")[0] for pair in read]
        if len(set(names)) != len(names) or not all(all(pair.partition("=")) for pair in read):
            raise _refuse(", ".join(read), self.expects)
        return read

    def read_text(self, text: str) -> tuple[str, ...]:
        return self.read([entry.strip() for entry in text.split(",") if entry.strip()])


@dataclass(frozen=True)
class Paths:
    """A list of paths below a directory."""

    expects: str = 'a list of relative paths without .., such as ["src", "docs"]'

    def read(self, value: object) -> tuple[str, ...]:
        paths = tuple(path.rstrip("/") or "/" for path in Texts().read(value))
        for path in paths:
            if path != "." and any(part in ("", ".", "..") for part in path.split("/")):
                raise _refuse(path, self.expects)
        return paths

    def read_text(self, text: str) -> tuple[str, ...]:
        return self.read([entry.strip() for entry in text.split(",") if entry.strip()])


@dataclass(frozen=True)
class Url:
    """An http or https base URL, without query and fragment."""

    expects: str = "an http:// or https:// URL with a host, without query and fragment"

    def read(self, value: object) -> str:
        if not isinstance(value, str) or not value.isascii() or not value.isprintable() or " " in value:
            raise _refuse(strip_userinfo(value), self.expects)
        try:
            parts = urlsplit(value)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            sound = False
        if not sound or "?" in value or "#" in value or len(value) > 2048:
            raise _refuse(strip_userinfo(value), self.expects)
        return value.rstrip("/")

    read_text = read


@dataclass(frozen=True)
class Optional(Generic[T]):
    """A kind whose value may be absent. TOML has no null: absent is the key left out."""

    kind: Kind[T]

    @property
    def expects(self) -> str:
        return self.kind.expects

    def read(self, value: object) -> T | None:
        return self.kind.read(value)

    def read_text(self, text: str) -> T | None:
        return self.kind.read_text(text)


_USERINFO = re.compile(r"(^|//)[^/?#]*@")
_QUERY = re.compile(r"[?#].*", re.DOTALL)


def strip_userinfo(url: object) -> str:
    """``url`` without credentials: a marker stands for userinfo, and for query and fragment, which may hold keys."""
    text = _USERINFO.sub(r"\1[removed]@", url if isinstance(url, str) else show(url))
    return _QUERY.sub("?[removed]", text)


def to_toml(value: object) -> Toml:
    """How a value of any kind is written in TOML."""
    if isinstance(value, Usd):
        return Decimal(str(value))
    if isinstance(value, Duration):
        return int(value.us // 1_000_000) if value.us % 1_000_000 == 0 else Decimal(str(value))
    if isinstance(value, tuple):
        return [str(entry) for entry in value]
    if isinstance(value, bool | int | str | Decimal):
        return value
    raise TypeError(f"{type(value).__name__} is no policy value")


def to_json(value: object) -> Json:
    """How a value of any kind stands in the policy document: amounts, times and ratios as decimal strings."""
    if isinstance(value, tuple):
        return [str(entry) for entry in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Usd | Duration):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no policy value")
