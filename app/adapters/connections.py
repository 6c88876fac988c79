"""Connections whose requests are sent once: whoever repeats a request must know that he does."""

import aiohttp


def open_session() -> aiohttp.ClientSession:
    """A session for an Azure client's transport. aiohttp would send a PUT again by itself when a kept
    connection breaks; in this one it does not.
    """
    return aiohttp.ClientSession(
        trust_env=True,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        middlewares=(_sent_once,),
    )


class _AnswerLostError(aiohttp.ClientError):
    """The connection broke when the request may have been sent."""


async def _sent_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Of the two kinds of error on which aiohttp sends again, make another."""
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _AnswerLostError(str(error)) from error
