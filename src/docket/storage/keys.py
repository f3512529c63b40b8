"""Keys: the run key, which never leaves memory, and the operator's key file.

Before a run key is made the process hides its memory: a child of the same user could otherwise read it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from docket.errors import UsageError
from docket.host import host
from docket.primitives.signature import SigningKey
from docket.storage.durable import SystemDisk, write_new
from docket.storage.regular import open_regular

SEED = 32
"""Bytes of an Ed25519 private key (RFC 8032 section 5.1.5)."""
MAX_KEY_FILE = 1 << 14
"""Bytes read of a key file: a PEM key has 120."""
_MAKE_ONE = "docket keygen makes one"
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


def hide_memory() -> bool:
    """Forbid core dumps and reading this process's memory by its own user; return whether a trial of both failed.

    Before any thread and any key: a process like the agent is made, and tries (prctl(2), proc(5)).
    """
    if not host().proc_filesystem:
        return False
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    dumps = libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 0 or resource.getrlimit(resource.RLIMIT_CORE) != (0, 0)
    return not dumps and not _readable_by_a_child()


def _readable_by_a_child() -> bool:
    """Whether a child, with the rights that the agent will have, can open this process's memory."""
    parent = os.getpid()
    child = os.fork()
    if not child:
        status = 0
        try:
            os.close(os.open(f"/proc/{parent}/mem", os.O_RDONLY))
        except BaseException:  # noqa: BLE001 a copy of docket must not go on, whatever happens in it
            status = 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 1


def new_run_key() -> SigningKey:
    """A fresh key, in memory only."""
    return SigningKey(os.urandom(SEED))


def generate_operator_key(path: Path) -> SigningKey:
    """Write a new operator key to ``path`` (PKCS #8, RFC 8410, in PEM, mode 0600) and return it.

    Raises UsageError if the file exists or cannot be written.
    """
    seed = os.urandom(SEED)
    pem = Ed25519PrivateKey.from_private_bytes(seed).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            write_new(SystemDisk(), path.name, pem, directory)
        finally:
            os.close(directory)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already", hint="a key is never overwritten: choose another name") from error
    except OSError as error:
        raise UsageError(f"cannot write the key file {path}: {error.strerror}") from error
    return SigningKey(seed)


def read_operator_key(path: Path) -> SigningKey:
    """The key of the file ``path``, which is read and closed.

    Raises UsageError if it is not a private Ed25519 key in PEM or if others may read it.
    """
    try:
        fd = open_regular(path, follow=True)
        try:
            mode = os.fstat(fd).st_mode
            pem = os.read(fd, MAX_KEY_FILE)
        finally:
            os.close(fd)
    except OSError as error:
        raise UsageError(f"cannot read the key file {path}: {error.strerror}", hint=_MAKE_ONE) from error
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"the key file {path} may be read by others", hint=f"chmod 600 {path}")
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path} is not a private key in PEM without a password", hint=_MAKE_ONE) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"the key in {path} is not an Ed25519 key", hint=_MAKE_ONE)
    return SigningKey(key.private_bytes_raw())
