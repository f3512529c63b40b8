"""Build the release: sdist, wheel, SBOM and provenance, the same bytes from the same commit. Use: ``make dist``.

What is built is the commit (``git archive``), never the working tree. Times are the commit's, members are sorted,
owners and modes are fixed. The SBOM is CycloneDX 1.6 over the run-time lock; the provenance an in-toto Statement v1
with the SLSA provenance v1 predicate, in a DSSE envelope where ``--sign KEY`` names a key of ``docket keygen``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import uuid
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).parents[1]
BUILD_LOCK = "requirements/build.lock"
BUILD = "import setuptools.build_meta as b, sys; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"
"""The back end changes ``sys.argv``."""
PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==(\S+?)(?: *; *(.*?))? *\\?$", re.MULTILINE)
STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
BUILDER = "urn:docket:make-dist:1"
"""Names this program, which is the builder and the type of its builds."""


def main(argv: list[str] | None = None) -> None:
    """Write the release of a commit into an empty directory."""
    parser = argparse.ArgumentParser(prog="make dist", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where to; must be absent or empty")
    parser.add_argument("--commit", default="HEAD", help="what to build")
    parser.add_argument("--sign", type=Path, help="operator key that signs the provenance")
    options = parser.parse_args(argv)
    out: Path = options.out.resolve()
    if out.exists() and any(out.iterdir()):
        parser.error(f"{out} is not empty: remove it, or name another directory with --out")
    out.mkdir(parents=True, exist_ok=True)
    commit = _git("rev-parse", f"{options.commit}^{{commit}}")
    epoch = int(_git("show", "-s", "--format=%ct", commit))
    with tempfile.TemporaryDirectory() as scratch:
        source, built = Path(scratch, "source"), Path(scratch, "built")
        _check_out(commit, source)
        _add_man_pages(source)
        _build(source, built, Path(scratch, "environment"), epoch)
        for path in sorted(built.iterdir()):
            (_repack_sdist if path.suffix == ".gz" else _repack_wheel)(path, out / path.name, epoch)
        project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
        stem = f"{project['name'].replace('-', '_')}-{project['version']}"
        _write(out / f"{stem}.cdx.json", sbom(project, (source / "requirements/runtime.lock").read_text(), epoch))
        statement = provenance(commit, out, (source / BUILD_LOCK).read_bytes())
    if options.sign is not None:
        from docket.receipt.statement import envelope
        from docket.storage.keys import read_operator_key

        statement = envelope(statement, read_operator_key(options.sign))
    _write(out / f"{stem}.intoto.json", statement)
    for path in sorted(out.iterdir()):
        print(f"{_sha256(path.read_bytes())}  {path.name}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _check_out(commit: str, target: Path) -> None:
    """Unpack ``commit`` with modes that no umask of this machine has touched."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(target, filter="data")
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _add_man_pages(source: Path) -> None:
    """Let the commit's own commands write their pages."""
    env = os.environ | {"PYTHONPATH": "src:.", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tools.man_pages", "man"]
    subprocess.run(command, cwd=source, env=env, stdout=subprocess.DEVNULL, check=True)


def _build(source: Path, built: Path, environment: Path, epoch: int) -> None:
    """Run the pinned build back end in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin/python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([*install, "-r", str(source / BUILD_LOCK)], check=True)
    built.mkdir()
    subprocess.run(
        [python, "-c", BUILD, str(built)],
        cwd=source,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _repack_sdist(path: Path, target: Path, epoch: int) -> None:
    """Copy a .tar.gz with sorted members, the commit's time, no owner, and modes 0644 or 0755."""
    plain = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with target.open("wb") as stream, gzip.GzipFile("", "wb", 9, stream, mtime=epoch) as packed:
        packed.write(plain.getvalue())


def _repack_wheel(path: Path, target: Path, epoch: int) -> None:
    """Copy a wheel with sorted members, the commit's time, and modes 0644 or 0755; RECORD covers contents only."""
    moment = datetime.fromtimestamp(epoch, UTC).timetuple()[:6]
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for name in sorted(old.namelist(), key=lambda name: (".dist-info/" in name, name)):
            member = zipfile.ZipInfo(name, moment)
            executable = old.getinfo(name).external_attr >> 16 & 0o100
            member.external_attr = (0o100755 if executable else 0o100644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(member, old.read(name))


def sbom(project: dict[str, Any], lock: str, epoch: int) -> dict[str, Any]:
    """Return a CycloneDX 1.6 document over the packages that ``lock`` pins; its serial number follows from them."""
    root = f"pkg:pypi/{project['name']}@{project['version']}"
    components = []
    for name, version, marker in PACKAGE.findall(lock):
        ref = f"pkg:pypi/{name.lower()}@{version}"
        component = {"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref}
        if marker:
            component["properties"] = [{"name": "docket:marker", "value": marker}]
        components.append(component)
    direct = {_normal(re.split(r"[\[<>=~! ;]", requirement)[0]) for requirement in project["dependencies"]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, root + lock)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": project["name"],
                "version": project["version"],
                "purl": root,
                "licenses": [{"license": {"id": project["license"]}}],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": root, "dependsOn": [line["bom-ref"] for line in components if _normal(line["name"]) in direct]}
        ],
    }


def _normal(name: str) -> str:
    """Return the name of a package as an index compares it (PyPA, name normalization)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def provenance(commit: str, out: Path, build_lock: bytes) -> dict[str, Any]:
    """Return an in-toto Statement v1 on the files of ``out``: from which commit, and with which pinned back end."""
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": path.name, "digest": {"sha256": _sha256(path.read_bytes())}} for path in sorted(out.iterdir())
        ],
        "predicateType": PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILDER,
                "externalParameters": {"commit": commit},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    {"name": BUILD_LOCK, "digest": {"sha256": _sha256(build_lock)}},
                ],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }


def _write(path: Path, document: Any) -> None:
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
