"""The same over TLS: a certificate is checked, and the deadline holds inside the encrypted connection too."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator

import pytest

from limpet.providers.llm import LlmRequest, build_prompt
from limpet.providers.openai import OpenAiLlm
from tests.unit.providers.embedding_server import HOLDS_OUT, KEY, EmbeddingServer, hangs, trickles
from tests.unit.providers.llm_server import OPENAI, QUESTION, llm_server, refused, streams

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate, and is missing")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Certificate and key in one file, for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True
    )
    both = folder / "both.pem"
    both.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return str(both)


@pytest.fixture
def server(certificate: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    with llm_server() as running:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        running.socket = context.wrap_socket(running.socket, server_side=True)
        yield running


@pytest.fixture
def llm(server, waits):
    return OpenAiLlm(server.url.replace("http:", "https:"), "small", KEY, sleep=waits.append)


@pytest.fixture
def trusted(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", certificate)


def test_untrusted_certificate_is_refused_without_retry(llm, waits):
    message = refused(llm)
    assert "cannot be reached" in message
    assert "CERTIFICATE_VERIFY_FAILED" in message
    assert waits == []


def test_complete_and_stream_work_over_tls(llm, server, trusted):
    assert llm.complete(QUESTION).text == "I am a test."
    server.plan = [streams(OPENAI.events("Grüße"), size=3, chunked=True)]
    assert list(llm.stream(QUESTION))[:-1] == ["Grüße"]


@pytest.mark.parametrize("answering", [hangs, trickles])
def test_timeout_holds_over_tls(llm, server, trusted, answering):
    server.plan = [answering]
    started = time.monotonic()
    assert "did not answer within 0.5 seconds" in refused(llm, LlmRequest(build_prompt("?"), timeout=0.5))
    assert time.monotonic() - started < HOLDS_OUT / 2
