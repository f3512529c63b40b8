"""docket on a pretended macOS: the switch thrown, what Linux alone has taken away. No real macOS is behind it.

``python macos_stand_in.py driver ...`` is the supervisor of the tests; the guardian it starts is this program again.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pretend() -> None:
    """Throw the switch before anything of docket has asked for it."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    import docket.host

    docket.host.host = lambda platform="darwin": docket.host.MACOS
    for module, name in ((os, "pidfd_open"), (os, "waitid"), (signal, "pidfd_send_signal")):
        delattr(module, name)
    from docket.process import kernel

    def missing(*arguments: object) -> None:
        raise OSError("macOS has no prctl")

    kernel.become_subreaper = kernel.die_with_parent = kernel.forbid_inspection = missing


def main() -> None:
    """Be the driver, or the guardian where the arguments are those of a guardian."""
    pretend()
    if sys.argv[1] == "driver":
        from tests.process import driver

        sys.executable = __file__
        del sys.argv[1]
        sys.exit(driver.main())
    from docket.process import guardian

    sys.argv[1:] = sys.argv[-3:]
    guardian.main()


if __name__ == "__main__":
    main()
