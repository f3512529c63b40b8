"""Budgets that many runs share: kept in one SQLite file or one PostgreSQL database, taken from in bounded leases."""
