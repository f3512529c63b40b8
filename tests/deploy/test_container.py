"""The container files, statically: no container engine runs in these tests.

What docket does as PID 1 stands in ``tests/e2e/test_pid_one.py``; here the files are held against the program and
against each other, so that an example cannot rot.
"""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import click
import pytest
import yaml

from docket.boundary.health import Health
from docket.cli.main import docket
from docket.policy.parse import parse
from docket.process.reaper import KILL_LIMIT_US

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
USER = "65532"
PORT = "9464"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as (instruction, rest), lines joined, without comments."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def last(name: str) -> str:
    return [rest for word, rest in instructions() if word == name][-1]


def pod_documents() -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes/pod.yaml").read_text())
    return {document["kind"]: document for document in documents}


def container() -> dict[str, Any]:
    (only,) = pod_documents()["Pod"]["spec"]["containers"]
    return only


def service() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["agent"]


def check_command(arguments: list[str]) -> None:
    """The flags in front of ``--`` are flags of ``docket run``."""
    assert arguments[0] == "run"
    flags = [word for word in arguments[1 : arguments.index("--")] if word.startswith("--")]
    command = docket.get_command(click.Context(docket), "run")
    assert command is not None
    known = {name for parameter in command.params for name in parameter.opts}
    assert set(flags) <= known


def test_the_image_runs_as_nobody_in_particular_and_is_stopped_by_sigterm() -> None:
    assert last("USER") == f"{USER}:{USER}"
    assert last("STOPSIGNAL") == "SIGTERM"
    words = [word for word, _ in instructions()]
    after_user = words[len(words) - words[::-1].index("USER") :]
    assert set(after_user) <= {"VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


def test_docket_itself_is_pid_1() -> None:
    """The exec form: a shell in between would swallow the signals."""
    assert yaml.safe_load(last("ENTRYPOINT")) == ["docket"]
    assert isinstance(yaml.safe_load(last("CMD")), list)
    assert service()["init"] is False
    assert "entrypoint" not in service()
    assert pod_documents()["Pod"]["spec"]["shareProcessNamespace"] is False
    assert "command" not in container()


def test_the_image_is_built_from_what_the_repository_has() -> None:
    copied = [rest for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    for sources in (shlex.split(rest)[:-1] for rest in copied):
        for source in sources:
            assert (ROOT / source).exists(), source
    assert "--require-hashes" in " ".join(rest for word, rest in instructions() if word == "RUN")
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    for base in (rest.split()[0] for word, rest in instructions() if word == "FROM"):
        version = re.fullmatch(r"python:3\.(\d+)-slim-bookworm", base)
        assert version, base
        assert int(version[1]) >= int(requires.removeprefix(">=3."))


def test_nothing_but_runs_and_tmp_is_written() -> None:
    """A read-only root: everything that is written lies on a volume."""
    environment = dict(pair.split("=", 1) for pair in shlex.split(last("ENV")))
    assert environment["DOCKET_DIR"] == "/runs" == last("VOLUME")
    assert container()["securityContext"]["readOnlyRootFilesystem"] is True
    assert {mount["mountPath"] for mount in container()["volumeMounts"] if not mount.get("readOnly")} == {
        "/runs",
        "/tmp",
    }
    assert service()["read_only"] is True
    assert [entry.split(":")[0] for entry in service()["tmpfs"]] == ["/tmp"]
    assert service()["volumes"][0] == "runs:/runs"


def test_the_pod_has_no_privileges() -> None:
    pod = pod_documents()["Pod"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert str(pod["securityContext"]["runAsUser"]) == str(pod["securityContext"]["fsGroup"]) == USER
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container()["securityContext"]["allowPrivilegeEscalation"] is False
    assert container()["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert service()["cap_drop"] == ["ALL"]
    assert service()["security_opt"] == ["no-new-privileges:true"]
    assert service()["user"] == f"{USER}:{USER}"


def test_volumes_and_mounts_belong_together() -> None:
    documents = pod_documents()
    volumes = {volume["name"]: volume for volume in documents["Pod"]["spec"]["volumes"]}
    assert {mount["name"] for mount in container()["volumeMounts"]} == set(volumes)
    claim = volumes["runs"]["persistentVolumeClaim"]["claimName"]
    assert claim == documents["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["policy"]["configMap"]["name"] == documents["ConfigMap"]["metadata"]["name"]


@pytest.mark.parametrize("place", ["compose", "pod"])
def test_the_policy_is_valid_and_stopping_leaves_time_for_the_receipt(place: str) -> None:
    """The stop period is above the grace period plus what SIGKILL may take."""
    if place == "compose":
        text = (DEPLOY / "docket.toml").read_text()
        period = float(service()["stop_grace_period"].removesuffix("s"))
    else:
        text = pod_documents()["ConfigMap"]["data"]["docket.toml"]
        period = pod_documents()["Pod"]["spec"]["terminationGracePeriodSeconds"]
    policy = parse(text)
    assert period > (policy.caps.grace_seconds.us + KILL_LIMIT_US) / 1e6


def test_the_commands_are_commands_of_docket() -> None:
    check_command(container()["args"])
    check_command(service()["command"])
    mounted = f"{container()['volumeMounts'][-1]['mountPath']}/docket.toml"
    for arguments in (container()["args"], service()["command"]):
        assert mounted in arguments
        assert arguments[arguments.index("--health-listen") + 1].endswith(f":{PORT}")


def test_each_probe_asks_its_own_endpoint() -> None:
    """Liveness never asks for readiness."""
    paths = {kind: container()[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/startupz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert {container()[kind]["httpGet"]["port"] for kind in paths} == {container()["ports"][0]["name"]}
    assert str(container()["ports"][0]["containerPort"]) == PORT
    assert f":{PORT}/livez" in service()["healthcheck"]["test"][-1]
    assert "livez" in (Health.__doc__ or "") + Path(ROOT / "src/docket/boundary/health.py").read_text()


def asked_paths() -> set[str]:
    """Every path of health or metrics that a shipped file asks for."""
    found = {container()[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    found.add(pod_documents()["Pod"]["metadata"]["annotations"]["prometheus.io/path"])
    texts = [path.read_text() for path in DEPLOY.rglob("*") if path.is_file()]
    for text in texts:
        found |= set(re.findall(r"127\.0\.0\.1:9464(/[a-z/]+)", text))
        found |= set(re.findall(r"metrics_path: (\S+)", text))
        found |= set(re.findall(r"^ +path: (/\S*z|/\S*metrics)$", text, re.MULTILINE))
    return found


@pytest.mark.parametrize("arguments", [container()["args"], service()["command"]], ids=["pod", "compose"])
def test_a_docket_with_the_files_own_arguments_answers_every_path_that_they_ask(
    arguments: list[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [word.replace("/etc/docket/docket.toml", str(DEPLOY / "docket.toml")) for word in arguments]
    arguments = [re.sub(rf"^(0\.0\.0\.0|127\.0\.0\.1):{PORT}$", rf"127.0.0.1:{port}", word) for word in arguments]
    agent = ["sh", "-c", "echo up; read -r _"]
    command = [sys.executable, "-m", "docket", *arguments[: arguments.index("--") + 1], *agent]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert {"/livez", "/readyz", "/startupz", "/metrics"} <= asked_paths()
        for path in sorted(asked_paths()):
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                assert answer.status == 200, path
        process.communicate("\n")
    assert process.returncode == 0


def test_no_secret_stands_in_the_files() -> None:
    for variable in container()["env"]:
        assert "value" not in variable
    assert all(value.startswith("${") for value in service()["environment"].values())
