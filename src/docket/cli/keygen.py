"""``docket keygen``: make the operator key that endorses runs and signs receipts."""

from __future__ import annotations

from pathlib import Path

import click

from docket.cli import output


@click.command("keygen")
@click.argument("file", type=click.Path(path_type=Path), default=Path("docket-operator.pem"))
def command(file: Path) -> None:
    """Write a new private Ed25519 key to FILE (docket-operator.pem by default), readable by its owner only.

    Prints the public key, 64 hex characters: give it to whoever verifies (`docket verify --operator HEX`). Use the
    file with `docket run --sign FILE`. Never give the agent a way to read it.
    """
    from docket.storage.keys import generate_operator_key  # brings cryptography, which --help does not need

    key = generate_operator_key(file)
    output.result(key.public.hex())
    output.remark(f"wrote the private key to {file}; keep it where no agent can read it")
