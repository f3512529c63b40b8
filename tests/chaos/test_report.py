from __future__ import annotations

import xml.etree.ElementTree as ET

from docket.chaos.plots import Band, Plot, Point
from docket.chaos.report import GameDay, Moment, PhaseReport, plot_files, to_json, to_markdown
from docket.primitives.canonical import encode


def day() -> GameDay:
    good = PhaseReport(id="baseline", title="Baseline", expectation="All calls pass.", seconds=1.25)
    good.check("calls that passed", "ledger", expected=5, observed=5)
    good.timeline.append(Moment(seconds=0.5, what="the run started"))
    good.plots.append(
        Plot(
            title="Calls <b>",
            unit="ms",
            points=[Point(x=0.1, y=20, kind="complete"), Point(x=0.4, y=5, kind="connect")],
            bands=[Band(start=0.2, end=0.5, name="outage & more")],
        )
    )
    bad = PhaseReport(id="disk-full", title="Full disk", expectation="It is said.")
    bad.check("verdict", "receipt", expected="incomplete", observed="verified|odd")
    skipped = PhaseReport(id="rollback", title="Rollback", expectation="-", skipped="no restore")
    return GameDay(began="2026-11-30T12:00:00Z", host="h", command="docket game-day", phases=[good, bad, skipped])


def test_one_failed_check_fails_its_phase_and_the_day_and_a_skip_does_neither() -> None:
    whole = day()
    assert [phase.verdict for phase in whole.phases] == ["PASS", "FAIL", "SKIP"]
    assert not whole.passed
    assert GameDay(began="", host="", command="", phases=[whole.phases[0], whole.phases[2]]).passed
    assert PhaseReport(id="x", title="x", expectation="x").verdict == "FAIL", "a phase that checked nothing"


def test_the_report_says_expected_against_observed_for_people_and_programs() -> None:
    text = to_markdown(day())
    assert "# Game day: FAILED" in text
    assert "| **verdict** | incomplete | verified\\|odd | receipt |" in text
    assert "Not tried: no restore." in text
    assert "![Calls <b>](baseline-1.svg)" in text
    assert encode(to_json(day())).startswith(b'{"began"')


def test_plots_are_well_formed_and_hold_every_point() -> None:
    files = plot_files(day())
    assert list(files) == ["baseline-1.svg"]
    root = ET.fromstring(files["baseline-1.svg"])
    assert sum(element.get("r") == "2.5" for element in root.iter("{http://www.w3.org/2000/svg}circle")) == 2
    empty = Plot(title="nothing", unit="ms", points=[])
    phase = PhaseReport(id="p", title="p", expectation="p", plots=[empty])
    ET.fromstring(plot_files(GameDay(began="", host="", command="", phases=[phase]))["p-1.svg"])


def test_the_names_of_a_legend_do_not_run_into_one_another() -> None:
    kinds = ["complete", "refused max_calls_per_second", "stale", "timeout"]
    plot = Plot(title="t", unit="ms", points=[Point(x=0, y=1, kind=kind) for kind in kinds])
    phase = PhaseReport(id="p", title="p", expectation="p", plots=[plot])
    root = ET.fromstring(plot_files(GameDay(began="", host="", command="", phases=[phase]))["p-1.svg"])
    names = [element for element in root.iter("{http://www.w3.org/2000/svg}text") if element.text in kinds]
    starts = [float(element.get("x", "")) for element in names]
    least = 5.5  # pixels that a letter of this size takes at the least
    for name, start, following in zip(names, starts, starts[1:], strict=False):
        assert start + least * len(name.text or "") < following
