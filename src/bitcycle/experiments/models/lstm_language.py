"""An LSTM language model over words: embedding, LSTM, decoder."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

State = tuple[Tensor, Tensor]


class LSTMLanguageModel(nn.Module):
    """Predicts the next word at every position of tokens (steps, batch); the state is carried from call to call."""

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
