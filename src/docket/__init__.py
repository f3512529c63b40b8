"""docket: supervise an AI-agent run, meter and cap its model calls, and write a receipt that anyone can verify."""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """``docket.Session``, loaded when it is asked for."""
    if name == "Session":
        from docket.client.session import Session

        return Session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
