"""Run the Dockerfile's steps in a chroot, and try what they make. Use: ``make image-trial``, as root, with debootstrap.

Stands in for a container engine where there is none: the base image is Debian with its own Python, so the size of the
base is its. COPY, RUN, ENV, WORKDIR and USER are done as the file says; what is tried runs as the file's user, with
a root that is read-only but for the volume and ``/tmp``.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "deploy/Dockerfile"
RELEASE = "bookworm"
CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"
PACKAGES = "python3,python3-venv,ca-certificates"


@dataclass
class Stage:
    """One stage: its root directory, and what RUN and the trials start from."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = "0:0"

    def run(self, command: str, *, env: dict[str, str], user: str = "0:0") -> subprocess.CompletedProcess[str]:
        """Run a line of sh inside, in the stage's directory."""
        inner = f"cd {shlex.quote(self.directory)} && {command}"
        return subprocess.run(
            [CHROOT, f"--userspec={user}", str(self.root), "/bin/sh", "-c", inner],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root"} | env | self.env,
            capture_output=True,
            text=True,
            check=False,
        )


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the file as (instruction, rest): continued lines joined, comments gone."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [
        (word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def bootstrap(target: Path) -> None:
    """Make the base image: Debian with its own Python under the name that the official image uses."""
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE, str(target)],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def build(base: Path, scratch: Path) -> Stage:
    """Do every instruction; return the last stage. Raises SystemExit with the output of a RUN that fails."""
    stages: dict[str, Stage] = {}
    stage = Stage(base)
    for number, (word, rest) in enumerate(instructions(DOCKERFILE.read_text())):
        if word == "FROM":
            stage = Stage(scratch / f"stage-{number}")
            subprocess.run(["cp", "-a", f"{base}/.", str(stage.root)], check=True)
            (stage.root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
            stages[rest.split(" AS ")[-1] if " AS " in rest else str(number)] = stage
        elif word == "COPY":
            _copy(rest, stage, stages)
        elif word == "RUN":
            _run(rest, stage)
        elif word == "ENV":
            for pair in shlex.split(rest):
                name, _, value = pair.partition("=")
                stage.env[name] = value.replace("$PATH", stage.env.get("PATH", "/usr/local/bin:/usr/bin:/bin"))
        elif word == "WORKDIR":
            stage.directory = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            stage.user = rest
    return stage


def _copy(rest: str, stage: Stage, stages: dict[str, Stage]) -> None:
    *sources, target = (name for name in rest.split() if not name.startswith("--"))
    origin = re.search(r"--from=(\S+)", rest)
    place = (
        stage.root / target.lstrip("/") if target.startswith("/") else stage.root / stage.directory.lstrip("/") / target
    )
    for source in sources:
        path = stages[origin[1]].root / source.lstrip("/") if origin else ROOT / source
        if path.is_dir():
            shutil.copytree(path, place, symlinks=True, dirs_exist_ok=True)
        else:
            into = place / path.name if len(sources) > 1 or target.endswith("/") else place
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, into)


def _run(line: str, stage: Stage) -> None:
    """Do one RUN, with the machine's name resolution and certificates in the place of an engine's network."""
    pip = {"PIP_CERT": "/tmp/ca.pem"}
    shutil.copy(os.environ.get("PIP_CERT") or "/etc/ssl/certs/ca-certificates.crt", stage.root / "tmp/ca.pem")
    for name in ("etc/resolv.conf", "etc/hosts"):
        shutil.copy(f"/{name}", stage.root / name)
    done = stage.run(line, env=pip)
    (stage.root / "tmp/ca.pem").unlink()
    if done.returncode:
        raise SystemExit(f"RUN {line}\n{done.stdout}{done.stderr}")


TRIALS: list[tuple[str, str, int, str]] = [
    ("the help, as `docker run docket` gives it", "docket --help", 0, "Supervise an AI agent"),
    ("an agent's own exit status", "docket run -- sh -c 'exit 7'", 7, "failed, 0 calls"),
    ("the record on the volume verifies", "docket verify /runs/latest", 0, "verified"),
    ("a cap, offline", "docket demo --docket-dir /runs/demo", 0, "verified"),
    ("the agent's python is the image's, not docket's", "docket run -- python -c 'import orjson'", 1, "No module"),
    ("nothing but the volume and /tmp can be written", "touch /work/x", 1, "Read-only"),
]


def try_it(stage: Stage) -> list[str]:
    """Run each trial in a mount namespace of its own with a read-only root; return what went wrong."""
    wrong = []
    for title, command, status, said in TRIALS:
        setup = (
            f"mount --bind {stage.root} {stage.root} && mount -o remount,bind,ro {stage.root}"
            f" && mount --bind {stage.root}/../runs {stage.root}/runs"
            f" && mount -t tmpfs -o mode=1777 tmpfs {stage.root}/tmp"
            f" && mount -t proc proc {stage.root}/proc && mount --bind /dev {stage.root}/dev"
        )
        env = " ".join(f"{name}={shlex.quote(value)}" for name, value in stage.env.items())
        inner = f"cd {stage.directory} && exec {command}"
        agent = f"{CHROOT} --userspec={stage.user} {stage.root} /bin/sh -c {shlex.quote(inner)}"
        line = f"{setup} && exec env -i HOME=/tmp {env} {agent}"
        done = subprocess.run(["unshare", "-m", "sh", "-c", line], capture_output=True, text=True, check=False)
        held = done.returncode == status and said in done.stdout + done.stderr
        print(f"{'PASS' if held else 'FAIL'}  {title}: {command}")
        if not held:
            wrong.append(f"{title}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return wrong


def size(path: Path) -> tuple[int, int]:
    """Return the bytes of a tree as they lie there, and as one gzip stream (about what an image weighs in transit)."""
    plain = int(subprocess.run(["du", "-sb", str(path)], capture_output=True, text=True, check=True).stdout.split()[0])
    packed = subprocess.run(
        ["sh", "-c", f"tar -C {path} -c . | gzip -6 | wc -c"], capture_output=True, text=True, check=True
    )
    return plain, int(packed.stdout)


def main() -> None:
    """Build, try, and print what the image weighs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, help="a debootstrap tree to use instead of making one")
    options = parser.parse_args()
    if os.geteuid() or shutil.which("debootstrap") is None:
        raise SystemExit("SKIP: this needs root and Debian's debootstrap")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        base = options.base or scratch / "base"
        if options.base is None:
            bootstrap(base)
        stage = build(base, scratch)
        (scratch / "runs").mkdir(mode=0o700)
        os.chown(scratch / "runs", *map(int, stage.user.split(":")))
        wrong = try_it(stage)
        for title, path in (("base", base), ("/opt/docket", stage.root / "opt/docket"), ("image", stage.root)):
            plain, packed = size(path)
            print(f"{title:<12} {plain / 1e6:6.1f} MB, {packed / 1e6:6.1f} MB compressed")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
