"""Every threshold stands in one table, belongs to a rule, and can be set."""

from __future__ import annotations

import pytest

from docket.errors import UsageError
from docket.findings.fold import NAMES, Findings
from docket.findings.thresholds import DEFAULTS, TABLE, with_settings
from kit.scripted import Script


def test_every_row_is_of_a_rule_and_every_rule_has_one() -> None:
    assert {row.name.partition(".")[0] for row in TABLE} == set(NAMES)
    assert len(DEFAULTS) == len(TABLE)


def test_every_threshold_is_read_by_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    import inspect

    from docket.findings.fold import RULES

    for rule in RULES:
        own = {row.name.partition(".")[2] for row in TABLE if row.name.startswith(f"{rule.name}.")}
        source = inspect.getsource(rule)
        assert all(f'"{name}"' in source or f"'{name}'" in source for name in own), rule.name


def test_a_setting_decides() -> None:
    script = Script().start()
    for _ in range(4):
        script.ask(digest="again")
    for settings, many in (((), 0), (("runaway-loop.repeats=3",), 1), (("runaway-loop.repeats=4",), 0)):
        fold = Findings(with_settings(settings))
        for entry in script.entries:
            fold.add(entry)
        assert len(fold.found()) == many, settings


@pytest.mark.parametrize(
    "setting",
    ["nothing=3", "runaway-loop.repeats", "runaway-loop.repeats=", "runaway-loop.repeats=0", "runaway-loop.repeats=-1",
     "runaway-loop.repeats=1.5", "runaway-loop.repeats=٣", "runaway-loop.repeats=10000000000"],
)  # fmt: skip
def test_what_is_no_threshold_is_refused_by_its_name(setting: str) -> None:
    with pytest.raises(UsageError, match=setting.partition("=")[0]):
        with_settings([setting])
