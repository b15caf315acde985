"""The corpus as tensors."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.encoder.corpus import Corpus
from training.encoder.texts import DEVICE, Texts

_MADE = frozenset({"made"})  # written by a program


class Data:
    def __init__(self, corpus: Corpus, tokenizer: Tokenizer) -> None:
        self.texts = Texts(tokenizer, corpus.texts)
        self.sources = sorted({pair.source for pair in corpus.pairs})
        number = {source: at for at, source in enumerate(self.sources)}
        rows = [(number[pair.source], pair.question, pair.text, pair.group) for pair in corpus.pairs]
        self.pairs = torch.tensor(rows, device=DEVICE)
        self.is_made = torch.tensor([source in _MADE for source in self.sources], device=DEVICE)
        sizes = [len(group) for group in corpus.groups] + [0]  # the last is the group of texts without one
        self._sizes = torch.tensor(sizes, device=DEVICE)
        self._starts = torch.cumsum(self._sizes, 0) - self._sizes
        self._members = torch.tensor([text for group in corpus.groups for text in group] + [0], device=DEVICE)
        asked = torch.zeros(len(corpus.texts), dtype=torch.bool, device=DEVICE)
        asked[self.pairs[:, 1]] = True
        asked[torch.tensor(corpus.questions, dtype=torch.long, device=DEVICE)] = True
        self.passages = torch.nonzero(~asked)[:, 0]
        self.questions = torch.nonzero(asked)[:, 0]
        said = {text for source, texts in corpus.everyday.items() if source not in _MADE for text in texts}
        self.everyday = torch.tensor(sorted(said), device=DEVICE)
        self._answers = torch.sort(self._number(self.pairs[:, 1], self.pairs[:, 2]))[0]

    def _number(self, questions: Tensor, texts: Tensor) -> Tensor:
        return questions * len(self.texts) + texts

    def find_answers(self, questions: Tensor, texts: Tensor) -> Tensor:
        """Return which of the texts answer which question, one row a question."""
        wanted = self._number(questions[:, None], texts[None])
        at = torch.searchsorted(self._answers, wanted).clamp(max=len(self._answers) - 1)
        return self._answers[at] == wanted

    def draw_neighbours(self, groups: Tensor, texts: Tensor) -> Tensor:
        """Return for each group one of its texts; the given text where there is no group."""
        sizes = self._sizes[groups]
        at = (torch.rand(len(groups), device=DEVICE) * sizes).long() + self._starts[groups]
        return torch.where(sizes > 0, self._members[at.clamp(max=len(self._members) - 1)], texts)

    def keep_found(self, vectors: Tensor, source: str, best: int) -> int:
        """Drop pairs of a source whose text is not among the ``best`` of its conversation. Return how many stay."""
        kind = self.sources.index(source)
        keep = torch.ones(len(self.pairs), dtype=torch.bool, device=DEVICE)
        for at in torch.nonzero(self.pairs[:, 0] == kind)[:, 0].split(4096):
            _, question, text, group = self.pairs[at].T
            nearer = torch.zeros(len(at), dtype=torch.long, device=DEVICE)
            own = (vectors[question].float() * vectors[text].float()).sum(-1)
            for _ in range(48):  # a sample of its conversation
                other = self.draw_neighbours(group, text)
                nearer += (vectors[question].float() * vectors[other].float()).sum(-1) > own + 1e-4
            keep[at] = nearer < best
        self.pairs = self.pairs[keep]
        return int((self.pairs[:, 0] == kind).sum())
