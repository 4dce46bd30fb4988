"""Write on from a prompt with a run's model, token by token."""

import sys
from collections.abc import Iterator
from itertools import takewhile

from lab.commands._parser import Parser
from lab.commands._runs import add_run
from lab.errors import LabError
from lab.runs.find import find_run


def main(argv: list[str]) -> int:
    """Run ``lab generate``; the exit status.

    Raises:
        LabError: there is no such run, it has no checkpoint, or a value is out of its range.
    """
    options = _parser().parse_args(argv)
    prompt = _utf8(options.prompt)
    folder = find_run(options.run)

    from lab.config import Device
    from lab.training.generate import Sampling, as_text, generate
    from lab.training.load import load_model

    sampling = Sampling(
        temperature=options.temperature, top_k=options.top_k, top_p=options.top_p, seed=options.seed
    )
    loaded = load_model(folder, device=Device(options.device))
    tokenizer, model = loaded.tokenizer, loaded.model
    (given,) = tokenizer.encode_batch([prompt])
    start = given.tolist() or [tokenizer.eot]
    ids = generate(
        model, start, sampling, n_tokens=options.tokens, n_ids=tokenizer.vocab_size, cached=not options.no_cache
    )
    made: list[int] = []
    wanted = ids if options.no_stop else takewhile(lambda i: i != tokenizer.eot, ids)
    _write(prompt, as_text(_noted(wanted, made), tokenizer))
    room = model.position.longest
    if room is not None and len(start) + len(made) > room and len(made) < options.tokens:
        reason = f"position={loaded.config.position.name} has none beyond model.max_seq_len {room}"
        print(f"lab generate: ended after {len(made)} of {options.tokens} tokens: {reason}", file=sys.stderr)
    return 0


def _noted(ids: Iterator[int], made: list[int]) -> Iterator[int]:
    for i in ids:
        made.append(i)
        yield i


def _write(prompt: str, pieces: Iterator[str]) -> None:
    """Print as it comes; the line is ended even where it is broken off."""
    print(prompt, end="", flush=True)
    try:
        for piece in pieces:
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        print(flush=True)
        raise
    print(flush=True)


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LabError("--prompt is not UTF-8") from error
    return text


def _parser() -> Parser:
    parser = Parser(
        prog="lab generate",
        description=f"{__doc__} The prompt is printed, then what follows as it is made, until the end of a text.",
    )
    add_run(parser)
    parser.add_argument(
        "--prompt", metavar="TEXT", default="", help="what to go on from (default: the start of a text)"
    )
    parser.add_argument("--tokens", metavar="N", type=int, default=200, help="most tokens to make (default: 200)")
    parser.add_argument(
        "--temperature",
        metavar="X",
        type=float,
        default=0.8,
        help="what logits are divided by; 0: always the likeliest token (default: 0.8)",
    )
    parser.add_argument("--top-k", metavar="N", type=int, help="draw from the N likeliest tokens")
    parser.add_argument(
        "--top-p", metavar="P", type=float, help="draw from the fewest tokens that hold this probability"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the draws (default: 0)")
    parser.add_argument(
        "--no-cache", action="store_true", help="compute all earlier positions again for each token"
    )
    parser.add_argument("--no-stop", action="store_true", help="go on after the end of a text")
    parser.add_argument(
        "--device", choices=["auto", "cpu", "cuda", "mps"], default="auto", help="where to compute (default: auto)"
    )
    return parser
