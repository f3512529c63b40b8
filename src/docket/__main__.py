"""``python -m docket``: the same as the ``docket`` command."""

from docket.cli.main import main

main()
