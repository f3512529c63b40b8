"""The GitHub Action and the GitLab template: their own steps are run here, as the service would run them.

Only what the service itself brings is stood in for: its variables, and its actions for Python, checkout and artifacts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "deploy/github"
GITLAB = ROOT / "deploy/gitlab/docket.gitlab-ci.yml"
LINTERS = ROOT / ".venv-linters/bin"
EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
LOOPING = f"{sys.executable} -m docket.sim.agent"


@dataclass
class Job:
    """One job of the service: the action's steps one after the other, with what a runner gives them."""

    workspace: Path
    runner_temp: Path
    inputs: dict[str, str]
    env: dict[str, str]
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    failed: bool = False
    text: str = ""

    def run(self) -> Job:
        for step in yaml.safe_load((ACTION / "action.yml").read_text())["runs"]["steps"]:
            if self._is_due(step.get("if")):
                self._step(step)
        return self

    def _is_due(self, condition: str | None) -> bool:
        """``always()`` and comparisons with the empty text are all that the action uses."""
        parts = (condition or "success()").split(" && ")
        always = parts[0] == "always()"
        for part in parts[always:]:
            if part == "success()":
                continue
            name, empty = part.split(" != ")
            assert empty == "''"
            if not self._value(name):
                return False
        return always or not self.failed

    def _value(self, name: str) -> str:
        match name.split("."):
            case ["inputs", key]:
                return self.inputs[key]
            case ["steps", step, "outputs", key]:
                return self.outputs.get(step, {}).get(key, "")
            case ["github", "action_path"]:
                return str(ACTION)
        raise AssertionError(f"the runner of this test knows no {name}")

    def _text(self, text: str) -> str:
        return EXPRESSION.sub(lambda found: self._value(found[1]), text)

    def _step(self, step: dict[str, Any]) -> None:
        if "uses" in step:
            if step["uses"].startswith("actions/setup-python"):
                self.outputs[step["id"]] = {"python-path": sys.executable}
            else:
                self.kept = self._text(step["with"]["path"]).split()
            return
        if step["name"] == "Install docket" and (self.runner_temp / "docket").exists():
            return  # the runner of this module has run it once
        output = self.runner_temp / "output"
        output.write_text("")
        env = self.env | {name: self._text(value) for name, value in step["env"].items()}
        env |= {"GITHUB_OUTPUT": str(output), "RUNNER_TEMP": str(self.runner_temp)}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.workspace,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.text += done.stdout
        self.failed |= done.returncode != 0
        if "id" in step:
            self.outputs[step["id"]] = dict(line.split("=", 1) for line in output.read_text().splitlines())


@pytest.fixture(scope="module")
def runner_temp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One runner's directory, in which the action's own install step has run."""
    return tmp_path_factory.mktemp("runner")


@pytest.fixture
def upstream() -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "docket.sim.upstream", "--input-tokens", "2000", "--output-tokens", "500"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield {"OPENAI_BASE_URL": process.stdout.readline().strip() + "/v1", "DOCKET_AGENT_MODEL": "gpt-4o"}
        process.terminate()


@pytest.fixture
def job(runner_temp: Path, tmp_path: Path) -> Callable[..., Job]:
    def start(command: str, env: dict[str, str] | None = None, **inputs: str) -> Job:
        defaults = yaml.safe_load((ACTION / "action.yml").read_text())["inputs"]
        given = {name: row.get("default", "") for name, row in defaults.items()}
        given |= {"command": command, "label": "agent/test"} | {
            name.replace("_", "-"): value for name, value in inputs.items()
        }
        summary = tmp_path / "summary.md"
        base = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GITHUB_STEP_SUMMARY": str(summary)}
        return Job(tmp_path, runner_temp, given, base | (env or {})).run()

    return start


def test_a_run_that_ends_well_is_verified_kept_and_reported(job: Callable[..., Job], tmp_path: Path) -> None:
    done = job("echo hello")
    assert not done.failed, done.text
    assert done.outputs["run"]["status"] == "0"
    assert done.outputs["check"]["verdict"] == "verified"
    archive, report = map(Path, done.kept)
    assert report.read_text() == (tmp_path / "summary.md").read_text()
    assert "### docket DKT-" in report.read_text()
    again = subprocess.run([sys.executable, "-m", "docket", "verify", str(archive)], capture_output=True, check=False)
    assert again.returncode == 0


def test_a_cap_fails_the_job_with_42_and_the_record_is_kept_all_the_same(
    job: Callable[..., Job], upstream: dict[str, str]
) -> None:
    done = job(LOOPING, upstream | {"DOCKET_AGENT_MODE": "runaway"}, max_usd="0.05")
    assert done.failed
    assert done.outputs["run"]["status"] == "42", done.text
    assert done.outputs["check"]["verdict"] == "verified"
    assert len(done.kept) == 2


def test_a_wrong_policy_fails_the_job_before_anything_starts_and_keeps_nothing(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "docket.toml").write_text("[caps]\nmax_used = 5\n")
    done = job("touch started")
    assert done.failed
    assert done.outputs["run"] == {"status": "2"}
    assert done.kept == []
    assert "max_usd" in done.text
    assert not (tmp_path / "started").exists()


def test_a_command_with_quotes_and_expressions_reaches_the_shell_as_it_is(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    assert not job("""printf '%s' "it's; $((1 + 1)) `echo ok`" > said""").failed
    assert (tmp_path / "said").read_text() == "it's; 2 ok"


def test_the_gitlab_jobs_own_lines_run(tmp_path: Path, upstream: dict[str, str]) -> None:
    template = yaml.safe_load(GITLAB.read_text())[".docket"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CI_PROJECT_DIR": str(ROOT), "CI_JOB_NAME": "agent"}
    variables = template["variables"] | {
        "DOCKET_COMMAND": LOOPING,
        "DOCKET_MAX_USD": "0.05",
        "DOCKET_SOURCE": str(ROOT),
        "DOCKET_ENV": str(tmp_path / "env"),
    }
    shutil.rmtree(tmp_path / "env", ignore_errors=True)
    script = "set -e\n" + "\n".join(template["script"]).replace("python -m venv", f"{sys.executable} -m venv")
    env |= variables | upstream | {"DOCKET_AGENT_MODE": "runaway"}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 42, done.stderr
    after = subprocess.run(
        ["sh", "-ec", "\n".join(template["after_script"])],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert after.stdout.startswith("verified")
    for path in template["artifacts"]["paths"]:
        assert (tmp_path / path).stat().st_size, path


def linter(name: str) -> str:
    found = shutil.which(name, path=f"{LINTERS}:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"SKIP: no {name} here: make linters")
    return found


def test_both_workflows_and_the_action_that_one_names_pass_actionlint(tmp_path: Path) -> None:
    workflows = tmp_path / ".github/workflows"
    workflows.mkdir(parents=True)
    shutil.copytree(ACTION, tmp_path / "deploy/github")
    shutil.copy(ACTION / "workflow.yml", workflows / "agent.yml")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    shutil.copy(ROOT / ".github/workflows/ci.yml", workflows)
    command = [linter("actionlint"), "-shellcheck=", "-pyflakes="]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    broken = (workflows / "agent.yml").read_text().replace("max-usd:", "max-us:")
    (workflows / "agent.yml").write_text(broken)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "max-us" in done.stdout, "a linter that finds nothing wrong has not been tried"


def test_the_dockerfile_passes_hadolint() -> None:
    command = [linter("hadolint"), "--format", "json", str(ROOT / "deploy/Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("path", sorted((ROOT / "deploy/kubernetes").glob("*.yaml")), ids=lambda path: path.name)
def test_every_kubernetes_file_follows_the_published_schema(path: Path, tmp_path: Path) -> None:
    command = [linter("kubernetes-validate"), "--strict"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / path.name
    broken.write_text(path.read_text().replace("restartPolicy", "restartPolice"))
    assert subprocess.run([*command, str(broken)], capture_output=True, check=False).returncode != 0
