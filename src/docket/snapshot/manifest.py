"""Manifests: what a tree held at one moment, one canonical line an entry, in one total order.

Owns the entry, its bytes, the order of paths and the strict reader. Invariant: a manifest that the reader accepts
names every path once, each below a directory that it names too, and no path of it is absolute, empty or holds ``.``,
``..`` or NUL. Two trees with the same content have the same ``Totals.tree`` whatever was read when, because the
canonical ``entry`` of a line holds nothing that time, inode or owner decides; those stand in ``seen``.

A path or link target is a ``str`` as the ``os`` module gives it: bytes that are no UTF-8 are lone surrogates
(PEP 383). In JSON such a name is ``{"base64": ..., "sha256": ...}`` (evidence format section 1).
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal, TypeAlias, get_args

from docket.errors import FormatError
from docket.primitives.canonical import Json, JsonObject, decode_object, encode
from docket.primitives.digest import sha256_hex

FORMAT = "docket/manifest/v1"
ROOT = "."
"""The path of the tree's root itself."""
MAX_TIME_NS = 2**63 - 1
"""Nanoseconds that 64 bits hold: the year 2262."""
MAX_FILE_BYTES = 16 * 2**30
"""A longer file is named and not read: a sparse one of a terabyte takes no room and would take an hour."""
MAX_LINE = 64 * 1024
"""Longest line in bytes: a path of PATH_MAX (4,096) bytes escaped six-fold, a link target likewise, and slack."""
MAX_DEPTH = 256
"""Most components of a path: the walk holds one descriptor a level, and 1,024 is a common limit of them."""

Kind: TypeAlias = Literal["file", "dir", "link", "fifo", "socket", "char", "block"]
KINDS: frozenset[str] = frozenset(get_args(Kind))
_KIND_OF = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
}
_HEX = re.compile(r"[0-9a-f]{64}")
_SEEN = re.compile(r"\d{1,20} \d{1,20} \d{1,10} \d{1,10} \d{1,10} -?\d{1,20} -?\d{1,20}")
_GAP = re.compile(r"[a-z][a-z-]{0,63}")
_BEGIN, _END = b'{"entry":', b',"seen":"'
"""What stands before and behind the canonical part of a line."""
RUN_OF_LINES = 512
"""Lines that are digested and written at once."""


def kind_of(mode: int) -> Kind:
    """The kind of a ``st_mode``."""
    return _KIND_OF[stat.S_IFMT(mode)]  # type: ignore[return-value]


def seen_of(status: os.stat_result) -> str:
    """Device, inode, links, uid, gid, mtime and ctime in nanoseconds: equal only while nobody touched the object."""
    return (
        f"{status.st_dev} {status.st_ino} {status.st_nlink} {status.st_uid} {status.st_gid} "
        f"{status.st_mtime_ns} {status.st_ctime_ns}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One path of a tree. ``mode`` is permission bits with set-id and sticky; ``size`` bytes of a file, else 0.

    ``sha256`` (64 hex) is the digest of a file's content and ``target`` what a link holds; ``gap`` is why a file's
    content or a directory's names are not known (``unreadable``, ``vanished``, ``changing``, ``too-deep``,
    ``other-filesystem``, ``too-large``). A file has exactly one of ``sha256`` and ``gap``.
    """

    path: str
    kind: Kind
    mode: int
    size: int = 0
    sha256: str | None = None
    target: str | None = None
    gap: str | None = None
    seen: str = "0 0 0 0 0 0 0"

    @property
    def device(self) -> int:
        return int(self.seen.split(" ")[0])

    @property
    def inode(self) -> int:
        return int(self.seen.split(" ")[1])

    @property
    def links(self) -> int:
        """Number of names of this object, in the tree or out of it."""
        return int(self.seen.split(" ")[2])

    @property
    def owner(self) -> tuple[int, int]:
        """User and group id."""
        _, _, _, uid, gid, _, _ = self.seen.split(" ")
        return int(uid), int(gid)

    @property
    def mtime_ns(self) -> int:
        """Time of the last change of content, nanoseconds since 1970."""
        return int(self.seen.split(" ")[5])

    def same_content(self, other: Entry) -> bool:
        """Whether kind and content agree; unknown content agrees only where the very same object was seen."""
        if self.kind != other.kind:
            return False
        if self.kind == "dir":
            return True
        if self.gap != other.gap:
            return False
        if self.gap is not None and self.kind == "file":
            return self.seen == other.seen and self.size == other.size
        return self.sha256 == other.sha256 and self.target == other.target

    def same(self, other: Entry) -> bool:
        """Whether content, permissions and owner agree. A link's permissions mean nothing on Linux."""
        if not self.same_content(other):
            return False
        return (self.kind == "link" or self.mode == other.mode) and self.owner == other.owner


def order(path: str) -> str:
    """Sort key: a directory stands right before its content, siblings by code point."""
    return "" if path == ROOT else path.replace("/", "\0")


def parent_of(path: str) -> str:
    """The directory that holds ``path``; of a top-level name the root."""
    return path.rpartition("/")[0] or ROOT


def text_to_json(text: str) -> Json:
    """A name as the format holds it: itself where it is Unicode, else its bytes."""
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = os.fsencode(text)
        return {"base64": base64.b64encode(raw).decode(), "sha256": sha256_hex(raw)}
    return text


def text_from_json(value: Json) -> str:
    """Inverse of ``text_to_json``. Raises FormatError for anything it does not give."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {"base64", "sha256"} and isinstance(value["base64"], str):
        try:
            raw = base64.b64decode(value["base64"], validate=True)
        except ValueError as error:
            raise FormatError("a name is not base64") from error
        text = os.fsdecode(raw)
        if text_to_json(text) == value:
            return text
    raise FormatError("not a name")


def check_path(path: str) -> None:
    """Raise FormatError unless ``path`` is relative, normal and at most ``MAX_DEPTH`` components."""
    if path == ROOT:
        return
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise FormatError(f"not a path below the root: {path!r}")
    if len(parts) > MAX_DEPTH:
        raise FormatError(f"a path of more than {MAX_DEPTH} components")


def entry_to_json(entry: Entry) -> JsonObject:
    """The canonical part: what is the same for the same content."""
    members: JsonObject = {"kind": entry.kind, "mode": entry.mode, "path": text_to_json(entry.path)}
    if entry.kind == "file":
        members["size"] = entry.size
    if entry.sha256 is not None:
        members["sha256"] = entry.sha256
    if entry.target is not None:
        members["target"] = text_to_json(entry.target)
    if entry.gap is not None:
        members["gap"] = entry.gap
    return members


def to_line(entry: Entry) -> bytes:
    """Canonical bytes of the entry's line, with its LF."""
    return encode({"entry": entry_to_json(entry), "seen": entry.seen}) + b"\n"


def file_line_without_digest(path: str, mode: int, size: int, seen: str) -> tuple[bytes, bytes]:
    """What stands before and behind the 64 hex digits in the line of a file."""
    plain = path.isascii() and path.isprintable() and '"' not in path and "\\" not in path
    spelled = f'"{path}"'.encode() if plain else encode(text_to_json(path))
    head = b'{"entry":{"kind":"file","mode":%d,"path":%b,"sha256":"' % (mode, spelled)
    return head, b'","size":%d},"seen":"%b"}\n' % (size, seen.encode())


def from_line(line: bytes) -> Entry:
    """The entry of a line without its LF. Raises FormatError for anything that ``to_line`` does not give."""
    document = decode_object(line)
    members, seen = document.get("entry"), document.get("seen")
    if document.keys() != {"entry", "seen"} or not isinstance(members, dict) or not isinstance(seen, str):
        raise FormatError("not a line of a manifest")
    if not _SEEN.fullmatch(seen) or not _is_possible(seen):
        raise FormatError("seen is not seven numbers as stat(2) gives them")
    return entry_from_json(members, seen)


def _is_possible(seen: str) -> bool:
    device, inode, _, uid, gid, mtime, ctime = map(int, seen.split(" "))
    return max(device, inode) < 2**64 and max(uid, gid) < 2**32 - 1 and max(abs(mtime), abs(ctime)) <= MAX_TIME_NS


def entry_from_json(members: JsonObject, seen: str) -> Entry:
    """Inverse of ``entry_to_json``, strict. Raises FormatError."""
    kind, mode, size = members.get("kind"), members.get("mode"), members.get("size", 0)
    sha256, gap = members.get("sha256"), members.get("gap")
    if not isinstance(kind, str) or kind not in KINDS:
        raise FormatError(f"not a kind of entry: {kind!r}")
    if type(mode) is not int or not 0 <= mode <= 0o7777 or type(size) is not int or size < 0:
        raise FormatError("mode or size out of range")
    if sha256 is not None and not (isinstance(sha256, str) and _HEX.fullmatch(sha256)):
        raise FormatError("sha256 is not 64 hex digits")
    if gap is not None and not (isinstance(gap, str) and _GAP.fullmatch(gap)):
        raise FormatError("gap is not a reason")
    path = text_from_json(members.get("path"))
    check_path(path)
    target = text_from_json(members["target"]) if "target" in members else None
    if target is not None and (not target or "\0" in target):
        raise FormatError("a link without a target")
    entry = Entry(
        path=path,
        kind=kind,  # type: ignore[arg-type]
        mode=mode,
        size=size,
        sha256=sha256,
        target=target,
        gap=gap,
        seen=seen,
    )
    if entry_to_json(entry) != members:
        raise FormatError("members that do not belong to an entry")
    if kind == "file" and (sha256 is None) == (gap is None):
        raise FormatError("a file has either a digest or a gap")
    if (kind == "link") != (target is not None) or (kind not in ("file", "dir") and gap is not None):
        raise FormatError(f"wrong members for a {kind}")
    if kind != "file" and sha256 is not None:
        raise FormatError(f"a {kind} has no digest")
    return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """First line of a manifest. ``root`` is absolute; ``taken_ns`` is the filesystem's time when the walk began."""

    root: str
    device: int
    inode: int
    taken_ns: int
    stored: bool

    def to_line(self) -> bytes:
        """Canonical bytes, with the LF."""
        return (
            encode(
                {
                    "format": FORMAT,
                    "root": text_to_json(self.root),
                    "root_id": f"{self.device} {self.inode}",
                    "stored": self.stored,
                    "taken_ns": str(self.taken_ns),
                }
            )
            + b"\n"
        )

    @classmethod
    def from_line(cls, line: bytes) -> Header:
        """Inverse of ``to_line``, without the LF. Raises FormatError."""
        document = decode_object(line)
        root_id, taken, stored = document.get("root_id"), document.get("taken_ns"), document.get("stored")
        if document.get("format") != FORMAT:
            raise FormatError(f"format is not {FORMAT}")
        if not isinstance(root_id, str) or not re.fullmatch(r"\d{1,20} \d{1,20}", root_id):
            raise FormatError("root_id is not two numbers")
        if not isinstance(taken, str) or not re.fullmatch(r"\d{1,20}", taken) or not isinstance(stored, bool):
            raise FormatError("taken_ns or stored is missing")
        root = text_from_json(document.get("root"))
        if not root.startswith("/") or "\0" in root or os.path.normpath(root) != root:
            raise FormatError("root is not an absolute path")
        device, inode = root_id.split(" ")
        return cls(root=root, device=int(device), inode=int(inode), taken_ns=int(taken), stored=stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a whole manifest adds up to. ``sha256`` is over the file, ``tree`` over the canonical entries."""

    files: int
    bytes: int
    entries: int
    sha256: str
    tree: str


class Tally:
    """Digests and counts of a manifest while its lines pass, in runs of lines because that is cheaper."""

    def __init__(self) -> None:
        self._file = hashlib.sha256()
        self._tree = hashlib.sha256()
        self._lines: list[bytes] = []
        self._files = self._bytes = self._entries = 0

    def header(self, line: bytes) -> None:
        """Add the first line, with its LF."""
        self._file.update(line)

    def add(self, line: bytes, *, file_bytes: int | None) -> bytes:
        """Add the line of an entry, with its LF; ``file_bytes`` is the size of a file, None for other kinds.

        Returns the lines whose turn it is to be written: none, or a run of them.
        """
        if file_bytes is not None:
            self._files += 1
            self._bytes += file_bytes
        self._lines.append(line)
        return self.flush() if len(self._lines) >= RUN_OF_LINES else b""

    def flush(self) -> bytes:
        """Digest the lines of the last run and return them."""
        run = b"".join(self._lines)
        self._file.update(run)
        self._tree.update(b"".join([line[len(_BEGIN) : line.rindex(_END)] + b"\n" for line in self._lines]))
        self._entries += len(self._lines)
        self._lines.clear()
        return run

    def totals(self) -> Totals:
        """The sums so far."""
        self.flush()
        return Totals(
            files=self._files,
            bytes=self._bytes,
            entries=self._entries,
            sha256=self._file.hexdigest(),
            tree=self._tree.hexdigest(),
        )


class Reader:
    """A manifest read once, line by line, in constant memory; ``totals`` is complete after the last entry."""

    def __init__(self, file: BinaryIO) -> None:
        """``file`` stands at the manifest's first byte. Raises FormatError for a bad header."""
        self._file = file
        self._tally = Tally()
        first = self._line()
        if first is None:
            raise FormatError("empty manifest")
        self.header = Header.from_line(first[:-1])
        self._tally.header(first)

    def totals(self) -> Totals:
        """Sums and digests of what was read so far."""
        return self._tally.totals()

    def _line(self) -> bytes | None:
        line = self._file.readline(MAX_LINE + 1)
        if not line:
            return None
        if len(line) > MAX_LINE or not line.endswith(b"\n"):
            raise FormatError("a line that is too long or cut")
        return line

    def __iter__(self) -> Iterator[Entry]:
        """Every entry in order. Raises FormatError for a path out of order, doubled, or without its directory."""
        last: str | None = None
        open_dirs: list[str] = []
        while (line := self._line()) is not None:
            entry = from_line(line[:-1])
            key = order(entry.path)
            if last is not None and key <= last:
                raise FormatError(f"out of order: {entry.path!r}")
            last = key
            if entry.path != ROOT:
                parent = parent_of(entry.path)
                while open_dirs and open_dirs[-1] != parent:
                    open_dirs.pop()
                if not open_dirs:
                    raise FormatError(f"without its directory: {entry.path!r}")
            elif entry.kind != "dir":
                raise FormatError("the root is no directory")
            if entry.kind == "dir":
                open_dirs.append(entry.path)
            self._tally.add(line, file_bytes=entry.size if entry.kind == "file" else None)
            yield entry
