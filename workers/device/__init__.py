"""Processes that touch torch: judge, runners, builder. They are started, never imported."""
