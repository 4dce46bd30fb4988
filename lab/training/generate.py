"""Text from a model, one token after the other, with a cache or by a forward over everything each time.

Of the logits z the temperature makes softmax(z / temperature); ``top_k`` keeps the k likeliest tokens, ``top_p`` of
those the fewest that hold the share p of their probability (nucleus sampling: arXiv:1904.09751, section 3.1), and
one is drawn. Draws are made in fp64 on the CPU, by inversion over the tokens in order of their probability, so
that they are a function of the logits and the seed on every device.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.component import check_number
from lab.data.tokenizer import Tokenizer
from lab.errors import LabError
from lab.model.transformer import Transformer

CUT = "\ufffd"
"""What a character shows as of which bytes are missing."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is taken."""

    temperature: float
    """What logits are divided by; 0 takes the likeliest token."""
    top_k: int | None
    """Likeliest tokens of which one is drawn; None: all."""
    top_p: float | None
    """Share of the probability that the tokens hold of which one is drawn, in (0, 1]; None: all of it."""
    seed: int
    """Of the draws."""

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, least=0)
        check_number("seed", self.seed, least=0, below=2**63)
        if self.top_k is not None:
            check_number("top_k", self.top_k, least=1)
        if self.top_p is not None:
            check_number("top_p", self.top_p, above=0, most=1)


def generate(
    model: Transformer,
    prompt: Sequence[int],
    sampling: Sampling,
    *,
    n_tokens: int,
    n_ids: int,
    cached: bool = True,
) -> Iterator[int]:
    """Give up to ``n_tokens`` ids that go on from a prompt, as they are made.

    Args:
        model: in evaluation mode.
        prompt: at least one id.
        sampling: how each is taken.
        n_tokens: where to end; a model that has positions only so far ends there.
        n_ids: ids that the tokenizer knows; a padded vocabulary has more, which are never taken.
        cached: whether earlier positions are kept, or computed again for each token.

    Raises:
        LabError: the prompt is longer than the model has positions.
    """
    check_number("tokens", n_tokens, least=1)
    ids, room = list(prompt), model.position.longest
    if room is not None and len(ids) > room:
        raise LabError(f"the prompt has {len(ids)} tokens, and the model has positions for {room}")
    return _tokens(model, ids, sampling, n_tokens, n_ids, cached)


def _tokens(
    model: Transformer, ids: list[int], sampling: Sampling, n_tokens: int, n_ids: int, cached: bool
) -> Iterator[int]:
    generator = torch.Generator().manual_seed(sampling.seed)
    caches, done, room = model.new_caches() if cached else None, 0, model.position.longest
    for _ in range(n_tokens):
        if room is not None and len(ids) > room:
            return
        logits_V = next_logits(model, ids[done:], caches, done)[:n_ids]
        done = len(ids) if cached else 0
        ids.append(pick(logits_V, sampling, generator))
        yield ids[-1]


def next_logits(model: Transformer, ids: Sequence[int], caches: Sequence[object] | None, offset: int) -> Tensor:
    """Logits z_V of the token after the last, in fp64 on the CPU."""
    return last_logits(model, torch.tensor([ids], device=model.embedding.weight.device), caches, offset)[0]


@torch.no_grad()
def last_logits(model: Transformer, ids_BT: Tensor, caches: Sequence[object] | None, offset: int) -> Tensor:
    """The same of several sequences, z_BV."""
    x_BTD, _ = model(ids_BT, caches, offset)
    logits_BTV = nn.functional.linear(x_BTD[:, -1:], model.head_weight(), model.head_bias)
    return model.stability.logits(logits_BTV)[:, 0].cpu().double()


def pick(logits_V: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """One id."""
    if sampling.temperature == 0:
        return int(logits_V.argmax())
    ids, reached = candidates(logits_V, sampling)
    drawn = torch.rand((), generator=generator, dtype=torch.float64) * reached[-1]
    return int(ids[min(len(ids) - 1, int(torch.searchsorted(reached, drawn, right=True)))])


def candidates(logits_V: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """The ids of which one is drawn, the likeliest first, and the sums of their probabilities up to each."""
    sorted_V, id_V = logits_V.sort(descending=True, stable=True)
    reached = torch.softmax(sorted_V[: sampling.top_k] / sampling.temperature, dim=0).cumsum(0)
    n = len(reached)
    if sampling.top_p is not None:
        n = min(n, int(torch.searchsorted(reached, sampling.top_p)) + 1)
    return id_V[:n], reached[:n]


def as_text(ids: Iterable[int], tokenizer: Tokenizer) -> Iterator[str]:
    """The text of ids in pieces as they come; a character waits until it is whole, or until the end."""
    waiting: list[int] = []
    for i in ids:
        waiting.append(i)
        text = tokenizer.decode(waiting)
        if not text.endswith(CUT):
            yield text
            waiting = []
    if waiting:
        yield tokenizer.decode(waiting)
