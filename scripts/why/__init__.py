"""Measures what WHY.md says: scripts/why.py."""
