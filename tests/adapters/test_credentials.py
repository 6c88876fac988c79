"""How the program signs in."""

import subprocess
import sys

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError

from app.adapters.credentials import azure_credential


async def test_with_a_key_it_is_the_key() -> None:
    async with azure_credential("secret") as credential:
        assert isinstance(credential, AzureKeyCredential)
        assert credential.key == "secret"


async def test_without_a_key_it_is_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")  # asks nobody
    for key in (None, ""):
        async with azure_credential(key, client_id="11111111-2222-3333-4444-555555555555") as credential:
            assert not isinstance(credential, AzureKeyCredential)
            with pytest.raises(ClientAuthenticationError, match="DefaultAzureCredential"):
                await credential.get_token("https://search.azure.com/.default")


def test_the_slow_import_is_left_until_it_is_needed() -> None:
    code = (
        "import sys, app.adapters.search, app.adapters.embeddings; sys.exit('azure.identity' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
