"""Hypothesis without a time limit for each example: it would judge the machine, not the code."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
