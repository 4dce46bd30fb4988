"""How many bytes a token holds.

``bytes_per_token``: UTF-8 bytes of the run's validation text over the tokens that its tokenizer makes of it,
end-of-text not counted. ``bytes_per_token_chinese``: of the validation text of ``data=sanguo``, up to 100,000
characters of it, which the tokenizer has seen nothing like unless the run was trained on it; left out where that
corpus cannot be had.
"""

from typing import Any, cast

from omegaconf import OmegaConf

from lab import choices
from lab.errors import LabError
from lab.measure._text import tokens_of
from lab.paths import conf_dir
from lab.training.load import Loaded

CHINESE = "sanguo"
"""The choice of ``data`` that is Chinese."""

MOST = 100_000
"""Characters of it."""


def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    tokens = tokens_of(loaded)
    ends = tokens.documents["val"] + 1
    values = {"bytes_per_token": tokens.bytes["val"] / (len(tokens.val) - ends)}
    text = chinese()
    if text:
        values["bytes_per_token_chinese"] = len(text.encode()) / len(loaded.tokenizer.encode_batch([text])[0])
    return values


def chinese() -> str:
    """Chinese text; empty where there is none."""
    if CHINESE not in choices.names("data"):
        return ""
    settings = OmegaConf.to_container(OmegaConf.load(conf_dir() / "data" / f"{CHINESE}.yaml"))
    try:
        corpus = choices.load("data", CHINESE).Config(**cast(dict[str, Any], settings)).load()
    except LabError:
        return ""
    return "\n".join(document.text for document in corpus.val)[:MOST]
