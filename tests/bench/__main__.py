"""`make bench`. The measuring stands in a module of its own, so that its processes can be started by name."""

from tests.bench.costs import main

main()
