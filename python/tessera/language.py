"""Language models of GGUF files."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from ._native import NativeLanguageModel


class LanguageModel(NativeLanguageModel):
    """A language model, which tessera.load("model.gguf") returns.

    It has one sequence: a call of generate ends the one before it.
    """

    def generate(
        self,
        prompt: str | Sequence[Mapping[str, str]],
        tokens: int = 256,
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 0.0,
        min_p: float = 0.0,
        repeat_penalty: float = 0.0,
        seed: int = 0,
    ) -> Iterator[str]:
        """Yields pieces of text: the most likely continuation, or a random one.

        prompt: a text to continue, or a conversation, [{"role": "user", "content": "Hello"}],
        which the model answers by the file's chat template.
        tokens: the largest number of tokens. The model may end earlier.
        temperature, top_k, top_p, min_p, repeat_penalty, seed: how tokens are chosen. Zeros have
        no effect; temperature 0 is the most likely token.
        """
        is_chat = not isinstance(prompt, str)
        if is_chat:
            prompt = self.chat([(message["role"], message["content"]) for message in prompt])
        self.begin(prompt, is_chat, temperature, top_k, top_p, min_p, repeat_penalty, seed)
        for _ in range(tokens):
            piece = self.step()
            if piece is None:
                return
            if piece:
                yield piece
