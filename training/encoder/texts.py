"""Texts as word pieces on the accelerator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from torch import Tensor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLS, SEP = 101, 102
VOCABULARY_SIZE = 30_522
_MAX_PIECES = 254


def load_tokenizer(vocabulary: Sequence[str]) -> Tokenizer:
    pieces = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))  # noqa: S106 - not a secret
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


class Texts:
    """Many texts as one array of pieces, from which batches are cut."""

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
        rows = [
            encoded.ids[:_MAX_PIECES]
            for start in range(0, len(texts), 20_000)
            for encoded in tokenizer.encode_batch(list(texts[start : start + 20_000]), add_special_tokens=False)
        ]
        self.lengths = torch.tensor([len(row) for row in rows], device=DEVICE)
        self.starts = torch.cumsum(self.lengths, 0) - self.lengths
        self.pieces = torch.tensor(np.fromiter(chain.from_iterable(rows), dtype=np.int64), device=DEVICE)

    def __len__(self) -> int:
        return len(self.lengths)

    def pad(self, numbers: Tensor, longest: int, *, special: bool = False) -> tuple[Tensor, Tensor]:
        """Return pieces and mask, one row a text; ``special`` adds the tokens that BERT wants at both ends."""
        lengths = self.lengths[numbers].clamp(max=longest)
        places = torch.arange(max(1, int(lengths.max())), device=DEVICE)[None]
        mask = places < lengths[:, None]
        at = (self.starts[numbers][:, None] + places).clamp(max=len(self.pieces) - 1)
        pieces = torch.where(mask, self.pieces[at], 0)
        return _add_special(pieces, mask, lengths) if special else (pieces, mask)

    def batches(self, numbers: Tensor, longest: int, pieces: int) -> Iterator[Tensor]:
        """Yield places in ``numbers``, texts of like length together, at most so many padded pieces a batch."""
        lengths = self.lengths[numbers].clamp(max=longest) + 2
        order = torch.argsort(lengths)
        sizes = lengths[order].cpu().numpy()
        start = 0
        while start < len(order):
            end = min(len(order), start + 8192)
            while end > start + 1 and sizes[end - 1] * (end - start) > pieces:
                end = start + max(1, (end - start) // 2)
            yield order[start:end]
            start = end


def _add_special(pieces: Tensor, mask: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    rows = torch.arange(len(pieces), device=DEVICE)
    edge = torch.zeros((len(pieces), 1), dtype=torch.long, device=DEVICE)
    pieces = torch.cat([edge + CLS, pieces, edge], 1)
    mask = torch.cat([edge == 0, mask, edge != 0], 1)
    pieces[rows, lengths + 1] = SEP
    mask[rows, lengths + 1] = True
    return pieces, mask
