"""The image: its Dockerfile's own steps in a chroot, and what they make, tried as its user with a read-only root."""

from __future__ import annotations

import os
import shutil

import pytest

from tools import image_trial


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="SKIP: needs root and debootstrap")
def test_every_trial_of_the_image_holds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["image_trial"])
    image_trial.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines[: len(image_trial.TRIALS)]] == ["PASS"] * len(image_trial.TRIALS)


def test_the_dockerfile_is_read_as_an_engine_reads_it() -> None:
    words = [word for word, _ in image_trial.instructions(image_trial.DOCKERFILE.read_text())]
    assert words.count("FROM") == 2
    assert set(words) <= {
        *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD")
    }
