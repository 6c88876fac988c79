"""Who may call what: the table of roles, tokens that are no good, and 401 and 403 kept apart."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from fastapi import FastAPI
from fastapi.routing import APIRoute, _IncludedRouter
from joserfc.jwk import ECKey

from app.domain.caller import Role
from app.web.access import ANY, NEEDED, OPEN, SIGNED_IN
from tests.directory import ADA, CLIENT, PIPELINE, TENANT, Directory, assembled, by_rsa, by_secret, key
from tests.fakes.live import FakeLive
from tests.web.served import Service, body, done, golden, lines, problem
from tests.web.signing_in import access_of

HOUR = 3600
OTHER = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
async def guarded(service: Service, directory: Directory) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that lets this tenant sign in."""
    async with service.serving(open_access=access_of(directory)) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def call_of(role: Role) -> tuple[str, str]:
    """A call that only this role opens, or else one that it opens, too."""
    found = sorted((len(needed), call) for call, needed in NEEDED.items() if needed and role in needed)
    method, _, path = found[0][1].partition(" ")
    return method, path.format(run_id="run-0001", name="lost")


# the table ------------------------------------------------------------------------------------------------


def routes(router: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every route, however it came into the application, as its calls."""
    for route in router.routes:
        if isinstance(route, _IncludedRouter):
            yield from routes(route.original_router, prefix + route.include_context.prefix)
        else:
            for method in getattr(route, "methods", None) or {"?"}:
                yield f"{method} {prefix}{getattr(route, 'path', '?')}", route


def test_every_route_is_in_the_table_of_roles(service: Service) -> None:
    found = dict(routes(service.application()))
    assert len(found) > 20
    assert {call for call, route in found.items() if not isinstance(route, APIRoute)} == set(), (
        "only an APIRoute meets the check that stands before every call"
    )
    assert set(found) == set(NEEDED)


def test_only_health_the_way_in_and_what_has_a_secret_of_its_own_are_open_to_everybody() -> None:
    assert {call for call, needed in NEEDED.items() if needed is OPEN} == {
        "GET /healthz",
        "GET /readyz",
        "GET /sign-in",
        "GET /sign-in/callback",
        "POST /v1/checks/azure-devops",
    }


def test_reading_needs_any_role_and_doing_needs_its_own() -> None:
    doing = {call: needed for call, needed in NEEDED.items() if needed not in (OPEN, SIGNED_IN, ANY)}
    assert all(call.startswith("POST ") for call in doing)
    assert all(needed is not None and len(needed) == 1 for needed in doing.values())
    assert all(call.startswith("GET ") for call, needed in NEEDED.items() if needed == ANY)


async def test_a_route_that_is_not_in_the_table_answers_nobody(service: Service) -> None:
    api: FastAPI = service.application()

    @api.get("/v1/forgotten")
    async def forgotten() -> str:
        return "secret"

    async with service.serving(api) as client:
        problem(await client.get("/v1/forgotten"), 500)


@pytest.mark.parametrize("call", sorted(NEEDED))
async def test_every_call_needs_what_the_table_says(
    guarded: httpx.AsyncClient, directory: Directory, call: str
) -> None:
    method, _, path = call.partition(" ")
    path = path.format(run_id="run-0000", name="lost")
    needed = NEEDED[call]
    if needed is OPEN:
        assert "www-authenticate" not in (await guarded.request(method, path)).headers
        return
    nobody = problem(await guarded.request(method, path), 401)
    assert nobody["title"] == "Nobody is signed in"
    for role in Role:
        response = await guarded.request(method, path, headers=bearer(directory.token(role)))
        if role in needed or not needed:
            assert response.status_code not in (401, 500)
            assert "You may not do this" not in response.text
        else:
            told = problem(response, 403)
            assert " or ".join(each for each in Role if each in needed) in told["detail"]
            assert response.headers["www-authenticate"] == 'Bearer error="insufficient_scope"'


# tokens that are no good: as good as any but for what their name says ---------------------------------------

Make = Callable[[Directory, Role], str]


def with_claims(**changes: Any) -> Make:
    return lambda directory, role: directory.token(role, **changes)


def at(**offsets: int) -> Make:
    return lambda directory, role: directory.token(
        role, **{name: int(time.time()) + offset for name, offset in offsets.items()}
    )


def with_header(**changes: Any) -> Make:
    return lambda directory, role: directory.signed(directory.claims(role), **changes)


def tampered(directory: Directory, role: Role) -> str:
    header, _, signature = directory.token("Nothing").split(".")
    return f"{header}.{directory.token(role).split('.')[1]}.{signature}"


def unsigned(directory: Directory, role: Role) -> str:
    return assembled({"alg": "none", "typ": "JWT", "kid": "first"}, directory.claims(role), lambda _: b"")


def signed_with_the_public_key(directory: Directory, role: Role) -> str:
    secret = directory.key.as_pem(private=False)
    return assembled({"alg": "HS256", "kid": directory.key.kid}, directory.claims(role), by_secret(secret))


def of_another_key(directory: Directory, role: Role) -> str:
    return directory.signed(directory.claims(role), key=key("foreign"))


def of_another_issuers_key(directory: Directory, role: Role) -> str:
    return directory.signed(directory.claims(role), key=key("foreign"), kid="foreign")


def with_its_own_key_inside(directory: Directory, role: Role) -> str:
    jwk = key("foreign").as_dict(private=False)
    return directory.signed(directory.claims(role), key=key("foreign"), kid="foreign", jwk=jwk)


def by_another_algorithm(alg: str) -> Make:
    return lambda directory, role: assembled(
        {"alg": alg, "kid": directory.key.kid},
        directory.claims(role),
        by_rsa(directory.key, hashes.SHA512()),
    )


def of_an_elliptic_curve(directory: Directory, role: Role) -> str:
    private = ECKey.generate_key("P-256").private_key
    assert private is not None
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

    return assembled(
        {"alg": "ES256", "kid": directory.key.kid},
        directory.claims(role),
        lambda data: private.sign(data, ECDSA(hashes.SHA256())),
    )


def cut(directory: Directory, role: Role) -> str:
    return directory.token(role).rpartition(".")[0]


def without_its_signature(directory: Directory, role: Role) -> str:
    return f"{cut(directory, role)}."


def a_list(directory: Directory, role: Role) -> str:
    return directory.signed([directory.claims(role)])


def deep(directory: Directory, role: Role) -> str:
    return f"{'W1tb' * 3000}.{directory.token(role).partition('.')[2]}"


BAD: dict[str, Make] = {  # all are 401
    "expired": at(exp=-90),
    "expired long ago": at(exp=-HOUR, nbf=-2 * HOUR, iat=-2 * HOUR),
    "not valid yet": at(nbf=120),
    "issued in the future": at(iat=HOUR),
    "without exp": with_claims(exp=None),
    "without nbf": with_claims(nbf=None),
    "without iat": with_claims(iat=None),
    "without aud": with_claims(aud=None),
    "without iss": with_claims(iss=None),
    "exp is a word": with_claims(exp="tomorrow"),
    "exp is no number": with_claims(exp=float("inf")),
    "other audience": with_claims(aud="https://management.azure.com"),
    "audience of another application": with_claims(aud=OTHER),
    "audience with a slash": with_claims(aud=f"api://{CLIENT}/"),
    "several audiences": with_claims(aud=[CLIENT, "https://graph.microsoft.com"]),
    "other tenant's issuer": lambda directory, role: directory.token(
        role, iss=directory.issuer.replace(TENANT, OTHER)
    ),
    "other tenant in tid": with_claims(tid=OTHER),
    "without tid": with_claims(tid=None),
    "issuer of version 1": with_claims(iss=f"https://sts.windows.net/{TENANT}/", ver="1.0"),
    "issuer with a slash": lambda directory, role: directory.token(role, iss=f"{directory.issuer}/"),
    "common issuer": lambda directory, role: directory.token(
        role, iss=directory.issuer.replace(TENANT, "common")
    ),
    "version 1": with_claims(ver="1.0"),
    "without version": with_claims(ver=None),
    "without a subject": with_claims(oid=None, sub=None, azp=None),
    "subject is a sentence": with_claims(oid="o [another]"),
    "token of a sign-in": with_claims(nonce="n-1"),
    "alg none": unsigned,
    "alg NonE": lambda directory, role: assembled(
        {"alg": "NonE", "kid": "first"}, directory.claims(role), lambda _: b""
    ),
    "HS256 with the public key": signed_with_the_public_key,
    "RS512": by_another_algorithm("RS512"),
    "RS256 in name only": by_another_algorithm("RS256"),
    "ES256": of_an_elliptic_curve,
    "without alg": with_header(alg=None),
    "without kid": with_header(kid=None),
    "kid is a number": with_header(kid=7),
    "kid is a path": with_header(kid="../../../dev/null"),
    "unknown kid": with_header(kid="nobody's"),
    "kid of another issuer": of_another_issuers_key,
    "signed by another key": of_another_key,
    "jku": lambda directory, role: directory.signed(
        directory.claims(role), key=key("foreign"), kid="foreign", jku=f"{directory.authority}/evil/keys"
    ),
    "x5u": lambda directory, role: directory.signed(
        directory.claims(role), key=key("foreign"), x5u=f"{directory.authority}/evil/certificate"
    ),
    "jwk inside": with_its_own_key_inside,
    "critical extension": with_header(crit=["b64"], b64=False),
    "other claims under a good signature": tampered,
    "cut": cut,
    "without its signature": without_its_signature,
    "five parts": lambda directory, role: f"{directory.token(role)}.x.y",
    "claims are a list": a_list,
    "deep": deep,
    "too long": with_claims(padding="x" * 20_000),
    "no token": lambda *_: "Gate.Run",
    "empty": lambda *_: "",
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_token_opens_nothing(
    guarded: httpx.AsyncClient,
    service: Service,
    directory: Directory,
    kind: str,
    role: Role,
) -> None:
    token = BAD[kind](directory, role)
    response = await guarded.request(*call_of(role), headers=bearer(token))
    told = problem(response, 401)
    assert response.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert not token or token not in response.text
    assert service.runs_kept == []
    if kind == "issuer of version 1":
        assert directory.issuer in told["detail"]
        assert "requestedAccessTokenVersion" in told["detail"]
    assert not any("evil" in asked for asked in directory.asked)


@pytest.mark.parametrize(
    "sent",
    [
        [],
        [("Authorization", "Basic Z2F0ZTpnYXRl")],
        [("Authorization", "Bearer")],
        [("X-MS-CLIENT-PRINCIPAL-ID", ADA), ("X-MS-CLIENT-PRINCIPAL", "e30=")],
        [("X-MS-TOKEN-AAD-ACCESS-TOKEN", "x")],
    ],
)
async def test_what_is_no_bearer_token_is_nobody(
    guarded: httpx.AsyncClient, sent: list[tuple[str, str]]
) -> None:
    response = await guarded.get("/v1/runs", headers=httpx.Headers(sent))
    problem(response, 401)
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_two_tokens_are_none(guarded: httpx.AsyncClient, directory: Directory) -> None:
    token = bearer(directory.token("Gate.Run"))["Authorization"]
    sent = httpx.Headers([("Authorization", token), ("Authorization", token)])
    problem(await guarded.get("/v1/runs", headers=sent), 401)
    address = f"/v1/runs?access_token={token.removeprefix('Bearer ')}"
    problem(await guarded.get(address), 401)


NO_ROLES: dict[str, Any] = {  # good tokens, all are 403 everywhere
    "no roles": None,
    "empty": [],
    "a string": "Gate.Run",
    "a string with all of them": "Gate.Run Gate.Read Gate.Review Gate.Promote",
    "near misses": ["gate.run", "GATE.RUN", "Gate.Run ", "Gate.Run.Denied", "Gate.Runs", "Run", "Gate.*"],
    "nested": [["Gate.Run", "Gate.Read", "Gate.Review"]],
    "an object": {"Gate.Run": True},
    "numbers": [1, True, None],
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("kind", NO_ROLES)
async def test_a_good_token_without_the_role_may_nothing(
    guarded: httpx.AsyncClient, directory: Directory, kind: str, role: Role
) -> None:
    token = directory.token(roles=NO_ROLES[kind], scp="Gate.Run Gate.Read Gate.Review user_impersonation")
    told = problem(await guarded.request(*call_of(role), headers=bearer(token)), 403)
    assert role in told["detail"]
    assert told["detail"].endswith("none.")


async def test_keys_that_cannot_be_read_are_no_fault_of_the_caller(service: Service) -> None:
    with Directory() as away:
        away.away = True
        async with service.serving(open_access=access_of(away)) as client:
            response = await client.get("/v1/runs", headers=bearer(away.token("Gate.Read")))
            problem(response, 503)
            assert response.headers["retry-after"] == "5"
            assert "www-authenticate" not in response.headers
            problem(await client.get("/v1/runs"), 401)


# who is recorded ------------------------------------------------------------------------------------------


async def test_the_token_signs_what_is_decided_whatever_the_body_says(
    guarded: httpx.AsyncClient, service: Service, directory: Directory
) -> None:
    service.search.index("kb-v2").otherwise = ("x",)
    guarded.headers.update(bearer(directory.token("Gate.Run")))
    run = await done(guarded, golden=golden(lines(1)))
    assert run["requested_by"].endswith(f"[{PIPELINE}]")
    review = {"question": "q1", "decision": "real-loss"}
    person = bearer(directory.token("Gate.Review", oid=ADA, name="Ada"))
    address = f"/v1/runs/{run['id']}/reviews"
    problem(await guarded.post(address, json={**review, "by": "somebody"}, headers=person), 422)
    kept = await guarded.post(address, json=review, headers=person)
    assert kept.json()["by"] == f"Ada [{ADA}]"


async def test_who_overrode_a_run_may_not_promote_it_under_another_name_either(directory: Directory) -> None:
    service = Service(live=FakeLive())
    service.search.index("kb-v2").otherwise = ("x",)
    async with service.serving(service.application(access_of(directory))) as client:
        client.headers.update(bearer(directory.token("Gate.Run")))
        run = await done(client)
        override = {"reason": "r", "watch": "w", "questions": ["q1", "q2", "q3"]}
        ada = bearer(directory.token("Gate.Review", oid=ADA, name="Ada Byron"))
        made = await client.post(f"/v1/runs/{run['id']}/overrides", json=override, headers=ada)
        assert made.status_code == 201, made.text
        holds = {}
        for who in (ADA, "somebody-else"):
            headers = bearer(directory.token("Gate.Promote", oid=who, name="Ada King"))
            found = (await client.get(f"/v1/runs/{run['id']}/clearance", headers=headers)).json()
            holds[who] = {each["code"]: each["holds"] for each in found["conditions"]}["four-eyes"]
            response = await client.post(f"/v1/runs/{run['id']}/promote", json={}, headers=headers)
            assert response.status_code == (409 if who == ADA else 200), response.text
        assert holds == {ADA: False, "somebody-else": True}


async def test_a_caller_is_known_before_a_body_is_read(guarded: httpx.AsyncClient) -> None:
    problem(await guarded.post("/v1/runs", content=b"{" * 1000, headers={"Content-Type": "text/plain"}), 401)
    problem(await guarded.get("/v1/runs", params={"limit": "many"}), 401)


async def test_where_nobody_signs_in_all_may_do_all(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/runs", json=body())).json()["requested_by"] is None
