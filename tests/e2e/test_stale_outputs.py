"""Build outputs in ignored places: made from the agent's sources, they look up to date beside restored ones."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from kit.installed import Done, Installed

AGENT = "echo evil >src/a; mkdir -p out/deep; cp src/a out/a; cp src/a out/deep/b; touch -d 2020-01-01 out/deep/b"
RUN = ("run", "--quiet", "--snapshot", "--", "sh", "-c")


@pytest.fixture
def built(installed: Installed) -> Installed:
    """A tree whose output is older than the run, and which ignores its outputs."""
    root = installed.directory
    (root / "docket.toml").write_text('[files]\nignore = ["out/"]\n')
    (root / "Makefile").write_text("out/a: src/a\n\tcp src/a out/a\n")
    for name in ("src", "out"):
        (root / name).mkdir()
    (root / "src/a").write_text("good\n")
    (root / "out/old").write_text("before the run\n")
    for name in ("src/a", "Makefile"):
        os.utime(root / name, (1_700_000_000, 1_700_000_000))
    return installed


def restored(installed: Installed, *flags: str) -> Done:
    return installed.run("restore", ".docket/latest", *flags)


def make(root: Path) -> str:
    subprocess.run(["make", "-s"], cwd=root, check=True)
    return (root / "out/a").read_text()


def test_every_output_of_the_run_is_named_whatever_its_time_says(built: Installed) -> None:
    assert built.run(*RUN, AGENT).status == 0
    done = restored(built, "--apply")
    assert done.status == 0
    assert [line.split()[2] for line in done.out.splitlines() if line.startswith("! output")] == ["out/a", "out/deep/b"]
    assert "--clean-outputs" in done.err
    assert (built.directory / "out/a").read_text() == "evil\n"


def test_cleaned_outputs_are_built_from_what_was_put_back(built: Installed) -> None:
    built.run(*RUN, AGENT)
    done = restored(built, "--apply", "--clean-outputs")
    assert done.status == 0
    assert sorted(path.name for path in (built.directory / "out").rglob("*")) == ["deep", "old"]
    assert make(built.directory) == "good\n"
    record = json.loads((built.latest / "restores/restore-0001.json").read_text())
    assert (record["outputs"], record["clean_outputs"]) == (["out/a", "out/deep/b"], True)


def test_without_apply_nothing_is_removed(built: Installed) -> None:
    built.run(*RUN, AGENT)
    restored(built, "--clean-outputs")
    assert (built.directory / "out/a").read_text() == "evil\n"


def test_what_was_built_after_the_run_is_no_output_of_it(built: Installed) -> None:
    built.run(*RUN, AGENT)
    restored(built, "--apply", "--clean-outputs")
    assert make(built.directory) == "good\n"
    done = restored(built, "--apply", "--clean-outputs")
    assert "output" not in done.out
    assert (built.directory / "out/a").exists()


def test_after_a_run_that_built_nothing_no_output_is_named(built: Installed) -> None:
    built.run(*RUN, "echo evil >src/a")
    done = restored(built, "--apply")
    assert "output" not in done.out + done.err


def test_a_link_in_an_ignored_place_leads_nowhere(built: Installed, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    built.run(*RUN, f"{AGENT}; echo x >{outside}/theirs; ln -s {outside} out/link; ln -s {outside}/theirs out/other")
    restored(built, "--apply", "--clean-outputs")
    assert (outside / "theirs").read_text() == "x\n"
