from collections.abc import AsyncIterator

import httpx
import pytest

from tests.web.served import Service


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def client(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with service.serving() as client:
        yield client
