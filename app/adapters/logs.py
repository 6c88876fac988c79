"""What this program writes of itself to standard error."""

import logging


def log_to_stderr(level: str) -> None:
    """What this program logs from that level on, and the least of what its libraries do."""
    logging.basicConfig(level=level.upper(), format="%(levelname)s %(name)s %(message)s")
    for name in ("azure", "httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # the clients log a traceback for every error answer without a body, which they then handle well
    for name in (
        "azure.search.documents._utils.model_base",
        "azure.appconfiguration._generated._utils.model_base",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)
