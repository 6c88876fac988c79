"""Fixtures that every test may ask for."""

import os

from hypothesis import settings

pytest_plugins = ["tests.azure_devops", "tests.azurite", "tests.directory"]

# CI decides on a submission: there the same examples every time; elsewhere new ones, to find new faults
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")
