"""Language models of GGUF files."""

from __future__ import annotations

from typing import Iterable, Iterator, Mapping, Sequence

from ._native import NativeLanguageModel


class LanguageModel(NativeLanguageModel):
    """A language model, which tessera.load("model.gguf") returns.

    generate has one sequence: a call ends the one before it. generate_all runs several at once.
    """

    def __init__(self, path, settings, capacity, sequences=1):
        super().__init__(path, settings, capacity, sequences)
        self._sequences = sequences

    def _prompt_of(self, prompt):
        if isinstance(prompt, str):
            return prompt, False
        return self.chat([(message["role"], message["content"]) for message in prompt]), True

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
        prompt, is_chat = self._prompt_of(prompt)
        self.begin(prompt, is_chat, temperature, top_k, top_p, min_p, repeat_penalty, seed)
        for _ in range(tokens):
            piece = self.step()
            if piece is None:
                return
            if piece:
                yield piece

    def generate_all(
        self, prompts: Iterable[str | Sequence[Mapping[str, str]]], tokens: int = 256, **sampling
    ) -> Iterator[tuple[int, str]]:
        """Yields (index of a prompt, piece of its text) for several prompts, which run at once.

        As many run at a time as tessera.load was given as `sequences`. When one ends, the next
        prompt takes its place. The texts are those of generate, whose other arguments apply, too.
        """
        if self._sequences < 2:
            for index, prompt in enumerate(prompts):
                for piece in self.generate(prompt, tokens, **sampling):
                    yield index, piece
            return
        values = dict(
            temperature=0.0, top_k=0, top_p=0.0, min_p=0.0, repeat_penalty=0.0, seed=0
        )
        unknown = sorted(set(sampling) - set(values))
        if unknown:
            raise TypeError(f"generate_all() got an unexpected keyword argument {unknown[0]!r}")
        values.update(sampling)
        waiting = enumerate(prompts)
        running = {}  # number of a sequence: index of its prompt, tokens left
        try:
            while True:
                while len(running) < self._sequences:
                    index, prompt = next(waiting, (None, None))
                    if index is None:
                        break
                    text, is_chat = self._prompt_of(prompt)
                    running[self.join(text, is_chat, **values)] = [index, tokens]
                if not running:
                    return
                for number, piece in self.step_all():
                    state = running.get(number)
                    if state is None:  # another call made it
                        continue
                    state[1] -= 1
                    if piece is None or state[1] <= 0:
                        self.leave(number)
                        del running[number]
                    if piece:
                        yield state[0], piece
        finally:
            for number in running:
                self.leave(number)
