"""A small Transformer language model: learned positions, causal attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TransformerLanguageModel(nn.Module):
    """Predicts the next word at every position of tokens (steps, batch); there is no state to carry."""

    def __init__(
        self, vocabulary: int, width: int, layers: int = 2, heads: int = 4, dropout: float = 0.2, longest: int = 512
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, state: None = None) -> tuple[Tensor, None]:
        length = len(tokens)
        places = torch.arange(length, device=tokens.device).unsqueeze(1)
        x = self.embedding(tokens) + self.positions(places)
        mask = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        return self.decoder(self.encoder(x, mask)), None
