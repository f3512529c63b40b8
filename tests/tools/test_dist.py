"""A release: the same bytes from one commit, installed as a user would, and what stands beside it is true of it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from docket.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]


def build(out: Path, umask: int, *flags: str) -> None:
    command = [sys.executable, "-m", "tools.dist", "--out", str(out), *flags]
    subprocess.run(command, cwd=ROOT, umask=umask, stdout=subprocess.DEVNULL, check=True)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if subprocess.run(["git", "rev-parse"], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("SKIP: no git checkout to build a commit of")
    out = tmp_path_factory.mktemp("release")
    build(out, 0o022)
    return out


def one(release: Path, pattern: str) -> Path:
    (path,) = release.glob(pattern)
    return path


def document(release: Path, pattern: str) -> dict[str, Any]:
    return json.loads(one(release, pattern).read_bytes())


def test_two_builds_of_one_commit_are_the_same_bytes_whatever_the_umask(release: Path, tmp_path: Path) -> None:
    build(tmp_path / "again", 0o077)
    again = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}
    assert again == {path.name: path.read_bytes() for path in release.iterdir()}
    assert len(again) == 4


def test_a_release_is_never_written_over_another(release: Path) -> None:
    command = [sys.executable, "-m", "tools.dist", "--out", str(release)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is not empty: remove it, or name another directory with --out" in done.stderr


def demo(docket: Path, directory: Path) -> None:
    """The installed command does its work, without anything of this environment."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([str(docket), "demo"], cwd=directory, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "verified: complete, sealed and consistent" in done.stdout


def test_the_wheel_runs_in_a_clean_environment_and_brings_its_pages(release: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env/bin/python")
    wheel = str(one(release, "*.whl"))
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel], check=True)
    demo(tmp_path / "env/bin/docket", tmp_path)
    pages = {path.name for path in (tmp_path / "env/share/man/man1").iterdir()}
    assert {f"docket-{name}.1" for name in COMMANDS} < pages


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_wheel_runs_on_every_python_that_is_here(version: str, release: Path, tmp_path: Path) -> None:
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
    ]
    python = next(
        (name for name in candidates if name and subprocess.run([name, "-c", ""], check=False).returncode == 0), None
    )
    if python is None:
        pytest.skip(f"SKIP: no Python {version} here")
    subprocess.run([python, "-m", "venv", str(tmp_path / "env")], check=True)
    pip = [str(tmp_path / "env/bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, str(one(release, "*.whl"))], check=True)
    demo(tmp_path / "env/bin/docket", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_the_wheel_is_installed_by_the_tools_that_people_use(tool: str, release: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    subprocess.run([str(tmp_path / "env/bin/python"), "-m", "pip", "install", "-q", tool], check=True)
    home = tmp_path / "home"
    places = {
        "UV_TOOL_DIR": "tools",
        "UV_TOOL_BIN_DIR": "bin",
        "PIPX_HOME": "pipx",
        "PIPX_BIN_DIR": "bin",
        "PIPX_MAN_DIR": "man",
    }
    env = os.environ | {name: str(home / place) for name, place in places.items()}
    words = ["tool", "install"] if tool == "uv" else ["install"]
    command = [str(tmp_path / "env/bin" / tool), *words, str(one(release, "*.whl"))]
    subprocess.run(command, env=env, capture_output=True, check=True)
    demo(home / "bin/docket", tmp_path)


def test_the_source_distribution_holds_what_builds_it_and_no_tests(release: Path) -> None:
    with tarfile.open(one(release, "*.tar.gz")) as tar:
        names = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
    assert {"pyproject.toml", "LICENSE", "src/docket/cli/main.py", "man/docket.1"} <= names
    assert [name for name in names if name.startswith("tests")] == []


def test_the_bill_of_materials_names_every_package_of_the_lock_and_every_direct_dependency(release: Path) -> None:
    bill = document(release, "*.cdx.json")
    lock = (ROOT / "requirements/runtime.lock").read_text()
    pinned = [line.split(" ")[0] for line in lock.splitlines() if "==" in line.split(" ")[0]]
    assert [f"{line['name']}=={line['version']}" for line in bill["components"]] == pinned
    with zipfile.ZipFile(one(release, "*.whl")) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        required = [line for line in wheel.read(metadata).decode().splitlines() if line.startswith("Requires-Dist")]
    refs = {line["bom-ref"] for line in bill["components"]}
    (root,) = bill["dependencies"]
    assert len(root["dependsOn"]) == len([line for line in required if "extra ==" not in line])
    assert set(root["dependsOn"]) <= refs


def test_the_provenance_names_every_other_file_by_its_digest_and_the_commit(release: Path) -> None:
    statement = document(release, "*.intoto.json")
    others = [path for path in sorted(release.iterdir()) if not path.name.endswith(".intoto.json")]
    assert statement["subject"] == [
        {"name": path.name, "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}} for path in others
    ]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert statement["predicate"]["buildDefinition"]["externalParameters"] == {"commit": head.stdout.strip()}
