"""Hostile trees and hostile run directories, by name: what stands there when an operator restores.

Every scene has a tree ``work``, a canary ``outside`` beside it, and the run of an agent that changed the tree.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from docket.ledger.chain import Chain, read_entry
from docket.ledger.codec import draft, from_json
from docket.primitives.canonical import JsonObject, decode_object, encode
from docket.primitives.digest import sha256_hex
from docket.snapshot.manifest import Entry, Header, to_line
from kit.files import record, wipe

REFUSED, UNREADABLE, DONE = 1, 2, 0
SECRET = "outside and untouched\n"


@dataclass
class Scene:
    """One laid-out case."""

    place: Path
    run: Path = field(init=False)
    expected: tuple[int, ...] = (DONE, REFUSED)
    arguments: list[str] = field(default_factory=list)
    after: Callable[[], None] = lambda: None

    @property
    def work(self) -> Path:
        return self.place / "work"

    @property
    def outside(self) -> Path:
        return self.place / "outside"

    def expect(self, *statuses: int) -> None:
        self.expected = statuses

    def finally_(self, check: Callable[[], object]) -> None:
        """``check`` must give True after the restore."""

        def after() -> None:
            assert check()

        self.after = after


def lay_out(place: Path, name: str) -> Scene:
    """Build the scene ``name`` in the empty directory ``place``."""
    scene = Scene(place)
    scene.outside.mkdir(parents=True)
    (scene.outside / "keep").write_text(SECRET)
    for folder in ("dir", "deep"):  # "deep" so that a link in the place of "sub" leads on
        (scene.outside / folder).mkdir()
        (scene.outside / folder / "keep").write_text(SECRET)
    for folder in ("sub/deep", "other"):
        (scene.work / folder).mkdir(parents=True)
    for file in ("sub/keep", "sub/deep/keep", "other/file", "top", "mode"):
        (scene.work / file).write_text(f"{file} before\n")
    scene.run, _ = record(scene.work, lambda: _agent(scene))
    SCENES[name](scene)
    return scene


def _agent(scene: Scene) -> None:
    """What the recorded run did."""
    (scene.work / "sub/keep").write_text("changed\n")
    (scene.work / "sub/deep/keep").unlink()
    (scene.work / "top").write_text("changed\n")
    (scene.work / "mode").chmod(0o600)
    (scene.work / "added").mkdir()
    (scene.work / "added/file").write_text("new\n")
    for extra in AGENTS.get(scene.place.name.partition("@")[0], ()):
        extra(scene)


# ── after the run, in the tree ──


def _swap_for_link(scene: Scene, path: str, target: str) -> None:
    wipe(scene.work / path)
    (scene.work / path).symlink_to(target)


def directory_is_a_link(scene: Scene) -> None:
    _swap_for_link(scene, "sub", "../outside")
    scene.expect(REFUSED)


def directory_is_a_link_forced(scene: Scene) -> None:
    _swap_for_link(scene, "sub", "../outside")
    scene.arguments.append("--force")
    scene.expect(REFUSED)


def directory_is_an_absolute_link(scene: Scene) -> None:
    _swap_for_link(scene, "sub", str(scene.outside))
    scene.expect(REFUSED)


def inner_directory_is_a_link(scene: Scene) -> None:
    _swap_for_link(scene, "sub/deep", "../../outside/dir")
    scene.arguments.append("--force")
    scene.expect(REFUSED)


def added_directory_is_a_link(scene: Scene) -> None:
    _swap_for_link(scene, "added", "../outside/dir")
    scene.expect(REFUSED)


def added_directory_is_a_link_forced(scene: Scene) -> None:
    _swap_for_link(scene, "added", "../outside/dir")
    scene.arguments.append("--force")


def magic_link(scene: Scene) -> None:
    _swap_for_link(scene, "sub", "/proc/self/cwd")
    scene.arguments.append("--force")
    scene.expect(REFUSED)


def link_loop(scene: Scene) -> None:
    _swap_for_link(scene, "sub", "sub")
    scene.expect(REFUSED)


def file_is_a_link(scene: Scene) -> None:
    _swap_for_link(scene, "top", "../outside/keep")
    scene.expect(REFUSED)


def file_is_a_link_forced(scene: Scene) -> None:
    _swap_for_link(scene, "top", "../outside/keep")
    scene.arguments.append("--force")
    scene.expect(DONE)
    scene.finally_(lambda: (scene.work / "top").read_text() == "top before\n")


def file_is_a_hard_link_forced(scene: Scene) -> None:
    wipe(scene.work / "top")
    os.link(scene.outside / "keep", scene.work / "top")
    scene.arguments.append("--force")
    scene.expect(DONE)
    scene.finally_(lambda: (scene.work / "top").read_text() == "top before\n")


def permissions_of_a_hard_link(scene: Scene) -> None:
    """Its content is what the run left, but the object is shared with a name outside."""
    text = (scene.work / "mode").read_text()
    wipe(scene.work / "mode")
    (scene.outside / "shared").write_text(text)
    (scene.outside / "shared").chmod(0o600)
    os.link(scene.outside / "shared", scene.work / "mode")
    scene.expect(DONE)
    scene.finally_(lambda: (scene.outside / "shared").stat().st_mode & 0o777 == 0o600)


def added_file_is_a_hard_link_forced(scene: Scene) -> None:
    wipe(scene.work / "added/file")
    os.link(scene.outside / "keep", scene.work / "added/file")
    scene.arguments.append("--force")


def _special(make: Callable[[Path], object]) -> Callable[[Scene], None]:
    def attack(scene: Scene) -> None:
        wipe(scene.work / "top")
        make(scene.work / "top")
        scene.arguments.append("--force")
        scene.expect(DONE)
        scene.finally_(lambda: (scene.work / "top").read_text() == "top before\n")

    return attack


def _socket(path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(path.parent)
    listener.bind(path.name)
    os.chdir(here)
    listener.close()


def _device(path: Path) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 3))


def directory_holds_what_is_not_ours(scene: Scene) -> None:
    (scene.work / "added/mine").write_text("mine")
    scene.expect(REFUSED)
    scene.finally_(lambda: (scene.work / "added/mine").read_text() == "mine")


def directory_where_a_file_was(scene: Scene) -> None:
    wipe(scene.work / "top")
    (scene.work / "top").mkdir()
    (scene.work / "top/mine").write_text("mine")
    scene.arguments.append("--force")
    scene.expect(REFUSED)
    scene.finally_(lambda: (scene.work / "top/mine").read_text() == "mine")


def changed_again(scene: Scene) -> None:
    (scene.work / "top").write_text("a person's work\n")
    scene.expect(REFUSED)
    scene.finally_(lambda: (scene.work / "top").read_text() == "a person's work\n")


def _temporary(scene: Scene, path: str) -> Path:
    key = sha256_hex(f"{scene.run.name}\0".encode() + path.encode())[:24]
    return (scene.work / path).parent / f".docket-restore-{key}"


def temporary_name_is_a_link(scene: Scene) -> None:
    _temporary(scene, "top").symlink_to(scene.outside / "keep")
    scene.expect(DONE)


def temporary_name_is_a_hard_link(scene: Scene) -> None:
    os.link(scene.outside / "keep", _temporary(scene, "top"))
    scene.expect(DONE)


def temporary_name_is_a_directory(scene: Scene) -> None:
    _temporary(scene, "top").mkdir()
    scene.expect(REFUSED)


def root_is_a_link(scene: Scene) -> None:
    scene.work.rename(scene.place / "moved")
    scene.work.symlink_to("outside")
    scene.run = scene.place / "moved" / scene.run.relative_to(scene.work)
    scene.arguments += ["--root", str(scene.work)]
    scene.expect(REFUSED)


def root_is_another_directory(scene: Scene) -> None:
    scene.arguments += ["--root", str(scene.outside)]
    scene.expect(REFUSED)


def root_was_moved(scene: Scene) -> None:
    """The same directory under another name is still the one."""
    scene.work.rename(scene.place / "moved")
    scene.run = scene.place / "moved" / scene.run.relative_to(scene.work)
    scene.expect(DONE)


def very_deep_tree(scene: Scene) -> None:
    here = os.getcwd()
    os.chdir(scene.work)
    for _ in range(300):
        os.mkdir("d" * 100)
        os.chdir("d" * 100)
    os.chdir(here)


def huge_sparse_file(scene: Scene) -> None:
    os.truncate(scene.work / "top", 2**42)
    scene.arguments.append("--force")
    scene.expect(DONE)


def hostile_names(scene: Scene) -> None:
    for name in (b"\xff\xfe", b"\x1b[2J", b"new\nline", b"-rf", b"*", b" "):
        with open(os.fsencode(scene.work) + b"/" + name, "wb") as file:
            file.write(b"x")


def mounted_over(scene: Scene) -> None:
    """Nothing to mount with in a test: a directory of another device is stood for by /proc below a link."""
    _swap_for_link(scene, "other", "/proc/self/root")
    scene.arguments.append("--force")


# ── the run directory ──


def forge(
    scene: Scene,
    before: list[Entry],
    after: list[Entry] | None = None,
    *,
    root: str | None = None,
    raw: bytes | None = None,
) -> None:
    """A record that holds in itself: manifests of these entries, a ledger whose chain names their digests."""
    status = scene.work.stat()
    header = Header(
        root=root or str(scene.work), device=status.st_dev, inode=status.st_ino, taken_ns=0, stored=True
    ).to_line()
    top = Entry(path=".", kind="dir", mode=0o755)
    digests = {}
    for name, entries in (("before", before), ("after", after if after is not None else [])):
        data = header + b"".join(to_line(entry) for entry in [top, *entries])
        if raw is not None and name == "before":
            data += raw
        (scene.run / f"snapshot/{name}.jsonl").write_bytes(data)
        digests[name] = sha256_hex(data)
    relink(scene, lambda when, private: private | {"manifest": digests[when], "root": root or str(scene.work)})


def relink(scene: Scene, change: Callable[[str, dict[str, object]], dict[str, object]]) -> None:
    """Write the ledger anew with other private members of its snapshots, so that its chain holds."""
    chain, lines = Chain(), []
    for line in (scene.run / "ledger.jsonl").read_bytes().splitlines():
        entry = read_entry(line)
        event = from_json(entry.type, entry.by, entry.data, entry.private)
        made = draft(event)
        if entry.type == "fs.snapshot":
            private = change(str(entry.data["when"]), dict(event.private))
            made = draft(dataclasses.replace(event, private=private))
        _, text, _ = chain.extend(made, ts=entry.ts, elapsed_us=entry.elapsed_us, entropy=os.urandom)
        lines.append(text)
    (scene.run / "ledger.jsonl").write_bytes(b"".join(lines))


def _content(scene: Scene, text: str) -> str:
    """Keep ``text`` in the run's store; its digest."""
    digest = sha256_hex(text.encode())
    (scene.run / "snapshot/contents" / digest).write_text(text)
    return digest


def _file(scene: Scene, path: str, mode: int = 0o644, seen: str = "0 0 1 0 0 0 0") -> Entry:
    return Entry(path=path, kind="file", mode=mode, size=5, sha256=_content(scene, "evil\n"), seen=seen)


def _forged_path(path: str) -> Callable[[Scene], None]:
    def attack(scene: Scene) -> None:
        forge(scene, [_file(scene, path.replace("OUTSIDE", str(scene.outside)))])
        scene.expect(UNREADABLE)

    return attack


def forged_child_of_a_link(scene: Scene) -> None:
    link = Entry(path="esc", kind="link", mode=0o777, target="../outside")
    forge(scene, [link, _file(scene, "esc/keep")])
    scene.expect(UNREADABLE)


def forged_child_of_a_link_that_stands_there(scene: Scene) -> None:
    (scene.work / "esc").symlink_to("../outside")
    became = Entry(path="esc", kind="link", mode=0o777, target="../outside")
    forge(scene, [Entry(path="esc", kind="dir", mode=0o755), _file(scene, "esc/keep")], [became])
    scene.arguments.append("--force")
    scene.expect(DONE)
    scene.finally_(lambda: (scene.work / "esc/keep").read_text() == "evil\n")


def forged_doubled_path(scene: Scene) -> None:
    forge(scene, [_file(scene, "x"), _file(scene, "x")])
    scene.expect(UNREADABLE)


def forged_order(scene: Scene) -> None:
    forge(scene, [_file(scene, "z"), _file(scene, "a")])
    scene.expect(UNREADABLE)


def forged_orphan(scene: Scene) -> None:
    forge(scene, [_file(scene, "nowhere/x")])
    scene.expect(UNREADABLE)


def forged_root(scene: Scene) -> None:
    forge(scene, [_file(scene, "keep")], root=str(scene.outside))
    scene.arguments.append("--force")
    scene.expect(DONE, REFUSED, UNREADABLE)  # by inode it is the tree where the operator stands, and is taken for that


def forged_root_of_all(scene: Scene) -> None:
    forge(scene, [_file(scene, "keep")], root="/")
    scene.arguments.append("--force")
    scene.expect(DONE, REFUSED, UNREADABLE)  # by inode it is the tree where the operator stands, and is taken for that


def forged_root_with_dots(scene: Scene) -> None:
    forge(scene, [_file(scene, "keep")], root=f"{scene.work}/../outside")
    scene.expect(UNREADABLE)


def forged_set_uid(scene: Scene) -> None:
    forge(scene, [_file(scene, "tool", 0o6755)])
    scene.arguments.append("--force")
    scene.expect(DONE)
    scene.finally_(lambda: (scene.work / "tool").stat().st_mode & 0o7777 == 0o755)


def forged_device(scene: Scene) -> None:
    forge(scene, [Entry(path="null", kind="char", mode=0o666)])
    scene.arguments.append("--force")
    scene.expect(DONE)
    scene.finally_(lambda: not (scene.work / "null").exists())


def forged_time(scene: Scene) -> None:
    forge(scene, [_file(scene, "x", seen=f"0 0 1 0 0 {10**19} 0")])
    scene.expect(UNREADABLE)


def forged_owner(scene: Scene) -> None:
    forge(scene, [_file(scene, "x", seen="0 0 1 4294967295 0 0 0")])
    scene.expect(UNREADABLE)


def forged_own_directory(scene: Scene) -> None:
    forge(scene, [Entry(path=".docket", kind="dir", mode=0o700), _file(scene, ".docket/latest")])
    scene.arguments.append("--force")
    scene.expect(REFUSED)
    scene.finally_(lambda: (scene.work / ".docket/latest").is_symlink())


def forged_removal_of_everything(scene: Scene) -> None:
    """A record that says the run made the person's files: they are not what it says the run left."""
    (scene.work / "thesis").write_text("years of work\n")
    forge(scene, [], [_file(scene, "thesis")])
    scene.expect(REFUSED)
    scene.finally_(lambda: (scene.work / "thesis").exists())


def _garbage(raw: bytes) -> Callable[[Scene], None]:
    def attack(scene: Scene) -> None:
        forge(scene, [], raw=raw)
        scene.expect(UNREADABLE)

    return attack


def content_is_a_link(scene: Scene) -> None:
    for content in (scene.run / "snapshot/contents").iterdir():
        content.unlink()
        content.symlink_to(scene.outside / "keep")
    scene.expect(REFUSED)


def content_is_changed(scene: Scene) -> None:
    for content in (scene.run / "snapshot/contents").iterdir():
        content.write_text("evil\n")
    scene.expect(REFUSED)
    scene.finally_(lambda: "evil" not in (scene.work / "top").read_text())


def content_is_a_fifo(scene: Scene) -> None:
    for content in (scene.run / "snapshot/contents").iterdir():
        content.unlink()
        os.mkfifo(content)
    scene.expect(REFUSED)


def contents_are_a_link(scene: Scene) -> None:
    wipe(scene.run / "snapshot/contents")
    (scene.run / "snapshot/contents").symlink_to(scene.outside)
    scene.expect(REFUSED)


def snapshot_is_a_link(scene: Scene) -> None:
    wipe(scene.run / "snapshot")
    (scene.run / "snapshot").symlink_to(scene.outside)
    scene.expect(UNREADABLE)


def _replaced(name: str, make: Callable[[Scene, Path], object]) -> Callable[[Scene], None]:
    def attack(scene: Scene) -> None:
        (scene.run / name).unlink()
        make(scene, scene.run / name)
        scene.expect(UNREADABLE)

    return attack


def _link_outside(scene: Scene, path: Path) -> None:
    path.symlink_to(scene.outside / "keep")


def _fifo(_: Scene, path: Path) -> None:
    os.mkfifo(path)


def _edited(name: str) -> Callable[[Scene], None]:
    def attack(scene: Scene) -> None:
        data = bytearray((scene.run / name).read_bytes())
        data[len(data) // 2] ^= 1
        (scene.run / name).write_bytes(data)
        scene.expect(UNREADABLE)

    return attack


def withheld(scene: Scene) -> None:
    """A ledger whose private members were taken out names no manifest any more."""
    lines = []
    for line in (scene.run / "ledger.jsonl").read_bytes().splitlines():
        document = decode_object(line)
        if document["type"] == "fs.snapshot":
            from docket.primitives.sealed import seal

            sealed = seal(document)["private"]
            assert isinstance(sealed, dict)
            document["private"] = {name: {"commitment": value} for name, value in sealed.items()}
        lines.append(encode(document) + b"\n")
    (scene.run / "ledger.jsonl").write_bytes(b"".join(lines))
    scene.expect(UNREADABLE)


def another_receipt(scene: Scene) -> None:
    document: JsonObject = {"ledger": {"size": 2, "root": "0" * 64}}
    (scene.run / "receipt.json").write_bytes(encode(document) + b"\n")
    scene.expect(UNREADABLE)


def restores_are_a_link(scene: Scene) -> None:
    (scene.run / "restores").symlink_to(scene.outside)
    scene.expect(UNREADABLE)


def _restore_record(scene: Scene, **members: object) -> None:
    (scene.run / "restores").mkdir(exist_ok=True)
    document = {"format": "docket/restore/v1", "state": "started", "plan": [], "directories": [], **members}
    (scene.run / "restores/restore-0001.json").write_bytes(encode(document) + b"\n")  # type: ignore[arg-type]


def earlier_restore_names_paths_outside(scene: Scene) -> None:
    outside = {"path": "../outside", "id": _id(scene.outside), "mode": 0o777, "mtime_ns": "0"}
    _restore_record(scene, directories=[outside], plan=[{"path": "../outside/keep", "do": "remove"}])
    scene.expect(DONE)


def earlier_restore_opens_a_directory(scene: Scene) -> None:
    """A forged record cannot widen permissions: only what a restore opened is put back."""
    other = {"path": "other", "id": _id(scene.work / "other"), "mode": 0o777, "mtime_ns": "0"}
    _restore_record(scene, directories=[other])
    scene.expect(DONE)
    scene.finally_(lambda: (scene.work / "other").stat().st_mode & 0o777 == 0o755)


def earlier_restore_is_a_link(scene: Scene) -> None:
    (scene.run / "restores").mkdir()
    (scene.run / "restores/restore-0001.json").symlink_to(scene.outside / "keep")
    scene.expect(DONE)


def earlier_restore_is_garbage(scene: Scene) -> None:
    (scene.run / "restores").mkdir()
    (scene.run / "restores/restore-0001.json").write_bytes(base64.b85decode(b"0" * 500))
    scene.expect(DONE)


def run_directory_moved_into_another_tree(scene: Scene) -> None:
    """Handed over to somebody who restores it where they stand."""
    elsewhere = scene.place / "elsewhere/.docket/runs" / scene.run.name
    elsewhere.parent.mkdir(parents=True)
    shutil.copytree(scene.run, elsewhere, symlinks=True)
    scene.run = elsewhere
    scene.expect(REFUSED)


def _id(path: Path) -> str:
    status = path.stat()
    return f"{status.st_dev} {status.st_ino}"


# ── what the recorded run itself did ──


def nothing_more(_: Scene) -> None:
    """The hostile part happened while the run was recorded."""


def agent_links_out(scene: Scene) -> None:
    _swap_for_link(scene, "sub", "../outside")


def agent_hard_links_out(scene: Scene) -> None:
    os.link(scene.outside / "keep", scene.work / "stolen")
    wipe(scene.work / "top")
    os.link(scene.outside / "dir/keep", scene.work / "top")


def agent_leaves_specials(scene: Scene) -> None:
    os.mkfifo(scene.work / "fifo")
    _socket(scene.work / "socket")
    wipe(scene.work / "top")
    os.mkfifo(scene.work / "top")


def agent_digs_deep(scene: Scene) -> None:
    very_deep_tree(scene)
    scene.expect(REFUSED)


AGENTS: dict[str, tuple[Callable[[Scene], None], ...]] = {
    "agent_links_out": (agent_links_out,),
    "agent_hard_links_out": (agent_hard_links_out,),
    "agent_leaves_specials": (agent_leaves_specials,),
    "agent_digs_deep": (agent_digs_deep,),
    "agent_names_hostile": (hostile_names,),
}

_IN_TREE = (
    directory_is_a_link, directory_is_a_link_forced, directory_is_an_absolute_link, inner_directory_is_a_link,
    added_directory_is_a_link, added_directory_is_a_link_forced, magic_link, link_loop, file_is_a_link,
    file_is_a_link_forced, file_is_a_hard_link_forced, permissions_of_a_hard_link, added_file_is_a_hard_link_forced,
    directory_holds_what_is_not_ours, directory_where_a_file_was, changed_again, temporary_name_is_a_link,
    temporary_name_is_a_hard_link, temporary_name_is_a_directory, root_is_a_link, root_is_another_directory,
    root_was_moved, very_deep_tree, huge_sparse_file, hostile_names, mounted_over,
)  # fmt: skip
_IN_RUN = (
    forged_child_of_a_link, forged_child_of_a_link_that_stands_there, forged_doubled_path, forged_order, forged_orphan,
    forged_root, forged_root_of_all, forged_root_with_dots, forged_set_uid, forged_device, forged_time, forged_owner,
    forged_own_directory, forged_removal_of_everything, content_is_a_link, content_is_changed, content_is_a_fifo,
    contents_are_a_link, snapshot_is_a_link, withheld, another_receipt, restores_are_a_link,
    earlier_restore_names_paths_outside, earlier_restore_opens_a_directory, earlier_restore_is_a_link,
    earlier_restore_is_garbage, run_directory_moved_into_another_tree,
)  # fmt: skip

SCENES: dict[str, Callable[[Scene], None]] = {
    **{attack.__name__: attack for attack in _IN_TREE + _IN_RUN},
    **dict.fromkeys(AGENTS, nothing_more),
    "file_is_a_fifo": _special(os.mkfifo),
    "file_is_a_socket": _special(_socket),
    "file_is_a_device": _special(_device),
    "forged_parent_path": _forged_path("../outside/keep"),
    "forged_absolute_path": _forged_path("OUTSIDE/keep"),
    "forged_path_with_dots": _forged_path("sub/../../outside/keep"),
    "forged_path_with_dot": _forged_path("./top"),
    "forged_empty_component": _forged_path("sub//keep"),
    "forged_nul": _forged_path("top\0.txt"),
    "forged_deep_path": _forged_path("/".join(["d"] * 300)),
    "manifest_with_garbage": _garbage(b"{}\n"),
    "manifest_cut": _garbage(b'{"entry":{"kind"'),
    "manifest_with_an_endless_line": _garbage(b"x" * 100_000),
    "manifest_is_a_link": _replaced("snapshot/before.jsonl", _link_outside),
    "manifest_is_a_fifo": _replaced("snapshot/after.jsonl", _fifo),
    "manifest_edited": _edited("snapshot/after.jsonl"),
    "ledger_is_a_link": _replaced("ledger.jsonl", _link_outside),
    "ledger_is_a_fifo": _replaced("ledger.jsonl", _fifo),
    "ledger_edited": _edited("ledger.jsonl"),
}
"""By name: what is done after the run."""
