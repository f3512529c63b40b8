"""Periods of a budget: when one begins, and which slots of spending still count. Pure; times are the store's.

Spending is kept in slots: one a day, week or month of the budget's time zone, one an hour for a rolling period, one
for ever for ``total``. Invariant: a slot begins at or before the moment it was asked for, and what is spent in a slot
counts for at least the length of the period.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from docket.errors import UsageError

SECOND = 1_000_000
HOUR = 3600 * SECOND
MAX_HOURS = 366 * 24
"""A leap year."""
_ROLLING = re.compile(r"rolling:([1-9][0-9]{0,3})h")


@dataclass(frozen=True, slots=True)
class Period:
    """``day``, ``week``, ``month`` or ``total`` in a time zone, or ``rolling:24h``."""

    text: str
    zone: ZoneInfo
    hours: int | None = None
    """The length of a rolling period."""

    @classmethod
    def parse(cls, text: str, zone: str = "UTC") -> Period:
        """Read what stands behind ``--per`` and ``--tz``. Raises UsageError."""
        try:
            known = ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UsageError(f"no time zone is called {zone!r}", hint="such as Europe/Berlin or UTC") from error
        rolling = _ROLLING.fullmatch(text)
        if rolling is not None and int(rolling[1]) <= MAX_HOURS:
            return cls(text, known, int(rolling[1]))
        if text not in ("day", "week", "month", "total"):
            raise UsageError(
                f"{text!r} is no period", hint="day, week, month, total, or a number of hours such as rolling:24h"
            )
        return cls(text, known)

    def slot(self, now: int) -> int:
        """The slot of ``now``, by its first microsecond since 1970; 0 for ``total``."""
        if self.hours is not None:
            return now - now % HOUR
        return 0 if self.text == "total" else _unix(self._first_day(now))

    def since(self, now: int) -> int:
        """The first slot that counts at ``now``."""
        if self.hours is not None:
            return self.slot(now - self.hours * HOUR)
        return self.slot(now)

    def ends(self, now: int) -> int | None:
        """When what is spent now stops counting; None where it never does."""
        if self.hours is not None:
            return self.slot(now) + (self.hours + 1) * HOUR
        if self.text == "total":
            return None
        first = self._first_day(now)
        if self.text == "day":
            return _unix(first + timedelta(days=1))
        if self.text == "week":
            return _unix(first + timedelta(days=7))
        return _unix((first + timedelta(days=32)).replace(day=1))

    def _first_day(self, now: int) -> datetime:
        """Midnight of the first day of the period that ``now`` lies in, on the wall clock of the zone."""
        day = datetime.fromtimestamp(now // SECOND, self.zone).replace(hour=0, minute=0, second=0)
        if self.text == "week":
            return day - timedelta(days=day.weekday())
        return day.replace(day=1) if self.text == "month" else day


def _unix(moment: datetime) -> int:
    return int(moment.timestamp()) * SECOND
