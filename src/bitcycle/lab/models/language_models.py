"""Word-level language models: an LSTM and a small Transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

State = tuple[Tensor, Tensor]


class LSTMLanguageModel(nn.Module):
    """An LSTM that predicts the next word at every position of tokens (length, batch).

    The hidden state is returned, and can be given to the next call.
    """

    def __init__(self, vocabulary: int, hidden: int, layers: int = 1, dropout: float = 0.5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.lstm = nn.LSTM(hidden, hidden, layers, dropout=dropout if layers > 1 else 0.0)
        self.decoder = nn.Linear(hidden, vocabulary)
        self.dropout = dropout
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        x = F.dropout(self.embedding(tokens), self.dropout, self.training)
        out, state = self.lstm(x, state)
        return self.decoder(F.dropout(out, self.dropout, self.training)), state


class TransformerLanguageModel(nn.Module):
    """A causal Transformer with learned positions that predicts the next word of tokens (length, batch).

    It has no state between calls.
    """

    def __init__(
        self, vocabulary: int, width: int, layers: int = 2, heads: int = 4, dropout: float = 0.2, max_length: int = 512
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(max_length, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, state: None = None) -> tuple[Tensor, None]:
        length = len(tokens)
        positions = torch.arange(length, device=tokens.device).unsqueeze(1)
        x = self.embedding(tokens) + self.positions(positions)
        mask = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        return self.decoder(self.encoder(x, mask)), None
