"""For programs that follow a run: its event stream, by cursor, through drops and restarts."""
