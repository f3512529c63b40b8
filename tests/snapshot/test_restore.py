"""``docket restore``: what it touches, what it refuses, what it writes down, how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

from docket.snapshot.scope import Scope
from kit.files import record, restore, sight


def _changed(root: Path) -> Path:
    """A run that changed three files and made one."""
    (root / "src").mkdir()
    for name in ("src/a.py", "src/b.py", "c.txt"):
        (root / name).write_text(f"{name}\n")

    def agent() -> None:
        for name in ("src/a.py", "src/b.py", "c.txt", "src/new.py"):
            (root / name).write_text("changed\n")

    return record(root, agent)[0]


def test_a_path_that_changed_again_is_refused_without_force(tmp_path: Path) -> None:
    run = _changed(tmp_path)
    (tmp_path / "src/a.py").write_text("a person's\n")
    (tmp_path / "c.txt").unlink()
    done = restore(run, "--apply")
    assert done.returncode == 1
    assert "changed again after the run" in done.stdout
    assert "removed again after the run" in done.stdout
    assert (tmp_path / "src/a.py").read_text() == "a person's\n"
    assert (tmp_path / "src/b.py").read_text() == "src/b.py\n"
    assert restore(run, "--apply", "--force").returncode == 0
    assert (tmp_path / "src/a.py").read_text() == "src/a.py\n"
    assert (tmp_path / "c.txt").read_text() == "c.txt\n"


def test_only_the_paths_that_were_asked_for(tmp_path: Path) -> None:
    run = _changed(tmp_path)
    assert restore(run, "--apply", "--only", "src/*.py", "--only", "!a.py").returncode == 0
    assert (tmp_path / "src/a.py").read_text() == "changed\n"
    assert (tmp_path / "src/b.py").read_text() == "src/b.py\n"
    assert (tmp_path / "c.txt").read_text() == "changed\n"
    assert not (tmp_path / "src/new.py").exists()


def test_a_file_alone_brings_its_directory_along(tmp_path: Path) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/one").write_text("one")
    (tmp_path / "deep/two").write_text("two")

    def agent() -> None:
        for name in ("deep/er/one", "deep/two"):
            (tmp_path / name).unlink()
        (tmp_path / "deep/er").rmdir()
        (tmp_path / "deep").rmdir()

    run, _ = record(tmp_path, agent)
    assert restore(run, "--apply", "--only", "deep/er/one").returncode == 0
    assert (tmp_path / "deep/er/one").read_text() == "one"
    assert not (tmp_path / "deep/two").exists()


def test_the_record_says_what_became_of_every_path_and_the_evidence_is_as_it_was(tmp_path: Path) -> None:
    run = _changed(tmp_path)
    (tmp_path / "c.txt").write_text("a person's\n")
    ledger = (run / "ledger.jsonl").read_bytes()
    shown = restore(run, "--apply", "--json")
    document = json.loads(shown.stdout)
    kept = json.loads((run / "restores" / document["record"]).read_text())
    assert kept["format"] == document["format"] == "docket/restore/v1"
    assert (kept["run"], kept["root"], kept["state"]) == (run.name, str(tmp_path), "finished")
    assert kept["outcomes"] == document["outcomes"]
    assert {item["path"]: item["outcome"] for item in kept["outcomes"]} == {
        "c.txt": "refused",
        "src/a.py": "done",
        "src/b.py": "done",
        "src/new.py": "done",
    }
    steps = {item["path"]: item for item in kept["plan"]}
    assert steps["src/a.py"]["before"]["sha256"] != steps["src/a.py"]["after"]["sha256"]
    assert (run / "ledger.jsonl").read_bytes() == ledger


def test_without_stored_contents_everything_is_refused_that_needs_them(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")

    def agent() -> None:
        (tmp_path / "a").write_text("b")

    run, _ = record(tmp_path, agent, stored=False)
    done = restore(run)
    assert done.returncode == 2
    assert "snapshot" in done.stderr


def test_nothing_goes_that_cannot_be_given_back(tmp_path: Path) -> None:
    """The content is looked at before the directory that took the file's place is removed."""
    (tmp_path / "f").write_text("content")

    def agent() -> None:
        (tmp_path / "f").unlink()
        (tmp_path / "f").mkdir()

    run, _ = record(tmp_path, agent)
    (content,) = (run / "snapshot/contents").iterdir()
    content.write_text("damaged")
    done = restore(run, "--apply")
    assert done.returncode == 1
    assert "not what its name says" in done.stdout
    assert (tmp_path / "f").is_dir()


def test_a_run_that_recorded_no_end_is_refused_without_force(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    run, _ = record(tmp_path, lambda: (tmp_path / "a").write_text("b"), ends=False)
    assert restore(run, "--apply").returncode == 1
    assert (tmp_path / "a").read_text() == "b"
    assert restore(run, "--apply", "--force").returncode == 0
    assert (tmp_path / "a").read_text() == "a"


def test_what_a_rule_left_out_is_left_alone_and_listed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/x").write_text("before")
    (tmp_path / "a").write_text("a")

    def agent() -> None:
        (tmp_path / "cache/x").write_text("after")
        (tmp_path / "a").write_text("b")

    scope = Scope(ignore=("cache/",), gitignore=False)
    run, _ = record(tmp_path, agent, scope=scope)
    done = restore(run, "--apply")
    assert done.returncode == 0
    assert (tmp_path / "cache/x").read_text() == "after"
    assert "cache  (ignored)" in done.stdout


def test_a_run_elsewhere_is_restored_where_its_root_is_confirmed(tmp_path: Path) -> None:
    root, docket_dir = tmp_path / "work", tmp_path / "records"
    root.mkdir()
    docket_dir.mkdir()
    (root / "a").write_text("a")
    run, _ = record(root, lambda: (root / "a").write_text("b"), docket_dir=docket_dir)
    assert restore(run, "--apply", cwd=docket_dir).returncode == 1
    assert restore(run, "--apply", "--root", str(tmp_path), cwd=docket_dir).returncode == 1
    assert (root / "a").read_text() == "b"
    assert restore(run, "--apply", cwd=root).returncode == 0
    assert (root / "a").read_text() == "a"


def test_nothing_to_do_is_0(tmp_path: Path) -> None:
    run, _ = record(tmp_path, lambda: None)
    done = restore(run, "--apply")
    assert (done.returncode, "nothing to do" in done.stderr) == (0, True)
    assert not (run / "restores").exists()


def test_no_run_there_is_2(tmp_path: Path) -> None:
    assert restore(tmp_path / "no-such-run", cwd=tmp_path).returncode == 2


def test_names_reach_the_terminal_without_their_control_characters(tmp_path: Path) -> None:
    def agent() -> None:
        for name in (b"\x1b[2Jwiped", b"two\nlines", b"\xff"):
            with open(os.fsencode(tmp_path) + b"/" + name, "wb"):
                pass

    run, _ = record(tmp_path, agent)
    shown = restore(run)
    assert "\x1b" not in shown.stdout
    assert len(shown.stdout.splitlines()) == 3
    assert restore(run, "--apply").returncode == 0
    assert sight(tmp_path).keys() == {"."}
