"""Attacks on real runs, a module a kind, each with the verdict that it must get and the first check that must fail."""
