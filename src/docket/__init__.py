"""docket: supervise an AI-agent run, meter and cap its model calls, and write a receipt that anyone can verify."""

__version__ = "0.1.0"
