"""Plan: what a restore would do to each path, from three sights of it: before the run, after it, and now.

Pure. Invariants: only paths that the run changed get a step; a path that changed again after the run is refused
unless forced; nothing is removed that was there before the run, or that the record does not name; a path that the
snapshot does not cover is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from docket.snapshot.changes import Difference
from docket.snapshot.manifest import ROOT, Entry, order, parent_of

SET_ID = 0o6000
"""Never given back to a file: a record must not be able to make a program privileged."""


class Do(Enum):
    """What happens to a path."""

    RESTORE = "restore"
    RECREATE = "recreate"
    REMOVE = "remove"
    ALREADY = "already there"
    LEAVE = "leave"
    REFUSE = "refuse"

    @property
    def acts(self) -> bool:
        """Whether the tree is touched."""
        return self in (Do.RESTORE, Do.RECREATE, Do.REMOVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What stands at a path now. ``names`` are a directory's; ``problem`` is why it cannot be seen."""

    entry: Entry | None = None
    names: frozenset[str] = frozenset()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One path of a plan."""

    path: str
    do: Do
    reason: str
    before: Entry | None
    after: Entry | None
    now: Entry | None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Under which terms a plan is made.

    ``selected`` says which paths are asked for; ``has_content`` whether a digest's content is in the store; ``own``
    is docket's directory below the root; ``partway`` are paths that an interrupted restore had begun with.
    """

    has_content: Callable[[str], bool]
    selected: Callable[[Entry], bool] = field(default=lambda _: True)
    force: bool = False
    recorded_end: bool = True
    own: str | None = None
    partway: frozenset[str] = frozenset()


def granted_mode(entry: Entry) -> int:
    """The permissions that a restore gives: a file never gets set-id bits."""
    return entry.mode & ~SET_ID if entry.kind == "file" else entry.mode & ~0o4000


def reached(now: Entry | None, before: Entry | None) -> bool:
    """Whether a path is as it was before the run, as far as a restore would ever bring it."""
    if now is None or before is None:
        return now is before
    if not now.same_content(before) or now.owner != before.owner:
        return False
    return now.kind == "link" or now.mode in (before.mode, granted_mode(before))


def make(changed: Iterable[Difference], here: Mapping[str, Here], terms: Terms) -> list[Step]:
    """The steps, in order of path. ``here`` holds every changed path and every parent of one."""
    steps: dict[str, Step] = {}
    for difference in changed:
        steps[difference.path] = _step(difference, here[difference.path], terms)
    chosen = {path: step for path, step in steps.items() if _is_selected(step, terms)}
    _add_missing_parents(chosen, steps)
    for path in sorted(chosen, key=order, reverse=True):
        chosen[path] = _keep_what_is_not_ours(chosen[path], chosen, here)
    for path in sorted(chosen, key=order):
        chosen[path] = _need_parent(chosen[path], chosen, here)
    return [chosen[path] for path in sorted(chosen, key=order)]


def _is_selected(step: Step, terms: Terms) -> bool:
    return any(entry is not None and terms.selected(entry) for entry in (step.before, step.after))


def _step(difference: Difference, here: Here, terms: Terms) -> Step:
    do, reason = _decide(difference, here, terms)
    return Step(
        path=difference.path,
        do=do,
        reason=reason,
        before=difference.before,
        after=difference.after,
        now=here.entry,
    )


def _decide(difference: Difference, here: Here, terms: Terms) -> tuple[Do, str]:
    path, before, after, now = difference.path, difference.before, difference.after, here.entry
    if terms.own is not None and (path == terms.own or path.startswith(terms.own + "/")):
        return Do.REFUSE, "lies in docket's own directory"
    if difference.unknown and (before is None or not terms.force):
        if here.problem is None and now is not None and reached(now, before):
            return Do.ALREADY, "is as it was before the run"
        return Do.LEAVE, "not covered: its directory could not be read"
    if here.problem is not None:
        return Do.REFUSE, here.problem
    if reached(now, before):
        if path in terms.partway and _lacks_its_time(now, before):
            return Do.RESTORE, "an interrupted restore did not finish it"
        return Do.ALREADY, "is as it was before the run"
    if before is not None and before.gap is not None:
        return Do.LEAVE, f"not covered: {before.gap}"
    if before is not None and before.kind not in ("file", "dir", "link"):
        return Do.LEAVE, f"not covered: a {before.kind} is not made again"
    if not terms.force and not _is_as_the_run_left_it(path, before, after, now, terms):
        if not terms.recorded_end:
            return Do.REFUSE, "the record does not say how the run left it"
        return Do.REFUSE, "changed again after the run" if now is not None else "removed again after the run"
    if before is None:
        return Do.REMOVE, "the run made it"
    if not _can_give_back(before, now, terms):
        return Do.REFUSE, "its content was not stored"
    if now is None:
        return Do.RECREATE, "the run removed it"
    if now.kind != before.kind:
        return Do.RECREATE, f"the run made it a {now.kind}"
    return Do.RESTORE, "the run changed it" if not now.same_content(before) else "the run changed its permissions"


def _lacks_its_time(now: Entry | None, before: Entry | None) -> bool:
    """Whether this is a directory that was made again and filled since."""
    return now is not None and before is not None and now.kind == "dir" and now.mtime_ns != before.mtime_ns


def _is_as_the_run_left_it(
    path: str, before: Entry | None, after: Entry | None, now: Entry | None, terms: Terms
) -> bool:
    if path in terms.partway:
        return now is None or any(known is not None and now.same_content(known) for known in (before, after))
    if not terms.recorded_end:
        return False
    if now is None or after is None:
        return now is after
    return now.same(after)


def _can_give_back(before: Entry, now: Entry | None, terms: Terms) -> bool:
    if before.kind != "file":
        return True
    assert before.sha256 is not None
    if now is not None and now.same_content(before) and now.links == 1:
        return True
    return terms.has_content(before.sha256)


def _add_missing_parents(chosen: dict[str, Step], steps: dict[str, Step]) -> None:
    """A file cannot come back without its directory: a directory that is gone is part of what was asked for."""
    for path in list(chosen):
        if not chosen[path].do.acts or chosen[path].do is Do.REMOVE:
            continue
        parent = parent_of(path)
        while parent != ROOT and parent not in chosen and parent in steps and steps[parent].now is None:
            chosen[parent] = steps[parent]
            parent = parent_of(parent)


def _keep_what_is_not_ours(step: Step, steps: dict[str, Step], here: Mapping[str, Here]) -> Step:
    """A directory that must go is refused where it holds what does not go with it."""
    if not step.do.acts or step.now is None or step.now.kind != "dir":
        return step
    if step.before is not None and step.before.kind == "dir":
        return step
    for name in sorted(here[step.path].names):
        child = steps.get(f"{step.path}/{name}")
        if child is None or child.do is not Do.REMOVE:
            return replace(step, do=Do.REFUSE, reason="holds what does not go with it")
    return step


def _need_parent(step: Step, steps: dict[str, Step], here: Mapping[str, Here]) -> Step:
    """What comes back needs a directory to stand in."""
    if step.path == ROOT or step.do not in (Do.RESTORE, Do.RECREATE):
        return step
    parent = steps.get(parent_of(step.path))
    if parent is not None and parent.do in (Do.RESTORE, Do.RECREATE):
        return step
    now = here[parent_of(step.path)].entry
    if now is not None and now.kind == "dir":
        return step
    return replace(step, do=Do.REFUSE, reason="its directory is not there and is not restored")
