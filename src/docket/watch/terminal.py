"""The view on a terminal, drawn again in place by rich; and as plain lines where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from docket.watch.lines import CAPS, seconds, share, state, used
from docket.watch.view import View, plain

OPEN_SHOWN = 6
"""Calls under way that are listed, the oldest first."""
RECENT_SHOWN = 8
"""Last events that are listed."""
STALE_SECONDS = 60
"""Age of the last answer of a lost source from which on it is said."""
WARN, FULL = 0.8, 1.0
"""Shares of a cap from which its bar is yellow and red."""


class Screen:
    """Draws views. ``printable`` takes control characters out of what a run says."""

    def __init__(self, console: Console, printable: Callable[[str], str]) -> None:
        self._console = console
        self._printable = printable
        self._live = Live(console=console, auto_refresh=False, screen=False, transient=False)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self, views: list[tuple[View, bool, float | None]]) -> None:
        """Show each view with whether it is live, and for how long its source has been lost, in seconds."""
        self._live.update(Group(*(self._panel(*row) for row in views)), refresh=True)

    def _panel(self, view: View, live: bool, lost: float | None) -> RenderableType:
        title = self._text(view.docket or "no event yet")
        if view.label:
            title.append(f"  {self._printable(view.label)}", "italic")
        title.append(f"  {state(view, live=live)}", "green" if live else "bold")
        if lost is not None:
            title.append("  reconnecting" + (f", {int(lost)} s old" if lost >= STALE_SECONDS else ""), "yellow")
        body: list[RenderableType] = [self._caps(view), self._counts(view)]
        if view.open:
            body.append(self._open(view))
        if view.recent:
            body.append(self._recent(view))
        return Panel(Group(*body), title=title, title_align="left", border_style="dim")

    def _caps(self, view: View) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for cap, _, unit in CAPS:
            portion = share(view, cap)
            amount = plain(round(used(view, cap), 6))
            if portion is None:
                if cap == "max_usd":
                    table.add_row("spent", f"{amount} {unit}", "no cap")
                continue
            style = "red" if portion >= FULL else "yellow" if portion >= WARN else "green"
            bar = ProgressBar(total=1.0, completed=min(portion, 1.0), width=24, complete_style=style)
            table.add_row(cap, f"{amount} of {view.limits[cap]} {unit}", bar, f"{portion:.0%}")
        rate, left = view.usd_per_hour(), view.seconds_left()
        if rate is not None:
            words = f"{plain(round(rate, 4))} USD an hour"
            table.add_row("rate", words, f"lasts {seconds(left)}" if left is not None else "")
        return table

    def _counts(self, view: View) -> RenderableType:
        pieces = [f"{view.calls} calls", f"{view.errors} errors", f"{sum(view.denied.values())} refused"]
        if view.cache_hits:
            pieces.append(f"{view.cache_hits} from the cache")
        if view.changes:
            pieces.append(f"{sum(view.changes.values())} files changed")
        if view.lost:
            pieces.append(f"{view.lost} events lost")
        text = self._text(", ".join(pieces))
        for name, count in sorted(view.kinds.items()):
            text.append(f"  {name} {count:,}", "dim")
        for upstream, word in sorted(view.breakers.items()):
            if word != "closed":
                text.append(f"\nbreaker of {self._printable(upstream)}: {word}", "red")
        for rule in view.violations:
            text.append(f"\nviolation: {self._printable(rule)}", "red")
        if view.breach is not None:
            text.append(f"\nbreached: {self._printable(str(view.breach['cap']))}", "red")
        return text

    def _open(self, view: View) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        rows = sorted(view.open.items(), key=lambda row: int(row[0]))
        for number, call in rows[:OPEN_SHOWN]:
            age = max(0, view.elapsed_us - call["since_us"]) / 1_000_000
            table.add_row(f"call {number}", self._printable(call["model"]), f"under way for {seconds(age)} or more")
        if len(rows) > OPEN_SHOWN:
            table.add_row("", f"and {len(rows) - OPEN_SHOWN} more", "")
        return table

    def _recent(self, view: View) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for row in view.recent[-RECENT_SHOWN:]:
            table.add_row(Text(row["ts"][11:19], "dim"), row["type"], self._text(row["said"]))
        return table

    def _text(self, text: str) -> Text:
        return Text(self._printable(text), no_wrap=False, overflow="ellipsis")
