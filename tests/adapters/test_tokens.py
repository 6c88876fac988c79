"""Keys that rotate and go away; what a good token tells. Bad tokens: tests/web/test_access.py."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from app.adapters.directory import open_directory
from app.adapters.tokens import COOLDOWN, FRESH, KEPT, RETRY, SigningKeys, TokenReader
from app.domain.caller import Role
from app.domain.errors import DirectoryError, TokenError
from tests.directory import ADA, CLIENT, PIPELINE, TENANT, Directory, key, public


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def own() -> Iterator[Directory]:
    with Directory() as found:
        yield found


@pytest.fixture
async def reader(own: Directory, clock: Clock) -> AsyncIterator[TokenReader]:
    async with open_directory(own.issuer) as found:
        yield TokenReader(
            issuer=own.issuer,
            tenant_id=TENANT,
            audiences=(CLIENT, f"api://{CLIENT}"),
            keys=SigningKeys(found.keys, clock),
        )


async def refused(reader: TokenReader, token: str) -> str:
    with pytest.raises(TokenError) as caught:
        await reader.caller(token)
    return str(caught.value)


async def test_keys_are_read_once(own: Directory, reader: TokenReader) -> None:
    await asyncio.gather(*(reader.caller(own.token("Gate.Run")) for _ in range(20)))
    assert own.keys_read == 1


async def test_nothing_is_read_before_the_first_token(own: Directory, reader: TokenReader) -> None:
    await refused(reader, "no.token.atall")
    assert own.asked == []


async def test_a_rotated_key_counts_after_the_cooldown(
    own: Directory, reader: TokenReader, clock: Clock
) -> None:
    old = own.token("Gate.Run")
    await reader.caller(old)
    own.rotate()
    assert "does not have" in await refused(reader, own.token("Gate.Run"))
    clock.now += COOLDOWN
    assert (await reader.caller(own.token("Gate.Run"))).id == PIPELINE
    assert (await reader.caller(old)).id == PIPELINE
    assert own.keys_read == 2


async def test_a_key_that_was_withdrawn_counts_until_keys_are_read_again(
    own: Directory, reader: TokenReader, clock: Clock
) -> None:
    token = own.token("Gate.Run")
    await reader.caller(token)
    own.published = [public(key("another"))]
    clock.now += FRESH - 1
    await reader.caller(token)
    clock.now += 1
    await refused(reader, token)


async def test_a_flood_of_unknown_key_ids_reads_keys_once_a_cooldown(
    own: Directory, reader: TokenReader, clock: Clock
) -> None:
    await reader.caller(own.token("Gate.Run"))
    for _ in range(3):
        clock.now += COOLDOWN
        junk = [own.signed(own.claims("Gate.Run"), kid=f"junk-{n}") for n in range(30)]
        await asyncio.gather(*(refused(reader, token) for token in junk))
    assert own.keys_read == 1 + 3


async def test_the_last_good_keys_stay_while_no_others_can_be_read(
    own: Directory, reader: TokenReader, clock: Clock
) -> None:
    token = own.token("Gate.Run")
    await reader.caller(token)
    own.away = True
    clock.now += FRESH
    for _ in range(5):
        await reader.caller(token)
    assert own.keys_read == 2, "asked once, and not again at once"
    with pytest.raises(DirectoryError):
        await reader.caller(own.signed(own.claims(), kid="perhaps-new"))
    clock.now += KEPT
    with pytest.raises(DirectoryError):
        await reader.caller(token)
    own.away = False
    clock.now += COOLDOWN
    await reader.caller(token)


async def test_no_keys_at_all_is_no_fault_of_the_token(
    own: Directory, reader: TokenReader, clock: Clock
) -> None:
    own.away = True
    for _ in range(10):
        with pytest.raises(DirectoryError, match="does not answer now"):
            await reader.caller(own.token("Gate.Run"))
    assert len(own.asked) == 1
    own.away = False
    clock.now += RETRY
    await reader.caller(own.token("Gate.Run"))


@pytest.mark.parametrize(
    "published",
    [
        [],
        [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}],
        [{"kty": "nonsense"}],
        ["text"],
        [{**public(key("first")), "kid": ["first"]}],
    ],
)
async def test_keys_that_cannot_be_used_are_none(
    own: Directory, reader: TokenReader, published: list[dict[str, str]]
) -> None:
    own.published = published
    with pytest.raises(DirectoryError):
        await reader.caller(own.token("Gate.Run"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"issuer": "https://login.microsoftonline.com/{tenantid}/v2.0"}, "GATE_ENTRA_AUTHORITY"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri"),
        ({"jwks_uri": None}, "jwks_uri"),
        ({"token_endpoint": 7}, "token_endpoint"),
    ],
)
async def test_a_directory_that_is_not_the_one_expected(
    own: Directory, reader: TokenReader, changes: dict[str, object], told: str
) -> None:
    own.discovery = changes
    with pytest.raises(DirectoryError, match=told):
        await reader.caller(own.token("Gate.Run"))


@pytest.mark.parametrize("audience", [CLIENT, f"api://{CLIENT}"])
async def test_both_forms_of_the_audience_are_good(
    own: Directory, reader: TokenReader, audience: str
) -> None:
    assert (await reader.caller(own.token("Gate.Run", aud=audience))).roles == {Role.RUN}


async def test_who_sent_it_is_the_object_id_whatever_the_name(own: Directory, reader: TokenReader) -> None:
    one = await reader.caller(own.token(oid=ADA, sub="s", name="Ada\n[root]", preferred_username="ada@x"))
    assert (one.id, one.signature) == (ADA, f"Ada root [{ADA}]")
    app = await reader.caller(own.token(azp="the-pipeline"))
    assert app.signature == f"application the-pipeline [{PIPELINE}]"
    assert (await reader.caller(own.token(oid=None, sub="only-this"))).id == "only-this"


@pytest.mark.parametrize(
    ("claim", "roles"),
    [
        (["Gate.Run", "Gate.Read"], {Role.RUN, Role.READ}),
        (["Gate.Run.Denied", "gate.run", "Gate.Run ", "Gate", "*", ["Gate.Run"], 7, None], set()),
        ("Gate.Run", set()),
        ({"Gate.Run": True}, set()),
        (None, set()),
    ],
)
async def test_roles_are_exact_elements_of_a_list(
    own: Directory, reader: TokenReader, claim: object, roles: set[Role]
) -> None:
    found = await reader.caller(own.token(roles=claim, scp="Gate.Run Gate.Read"))
    assert found.roles == roles


async def test_clocks_may_differ_by_a_minute(own: Directory, reader: TokenReader) -> None:
    now = own.claims()["iat"]
    await reader.caller(own.token(exp=now - 20))
    await reader.caller(own.token(nbf=now + 40, iat=now + 40))
