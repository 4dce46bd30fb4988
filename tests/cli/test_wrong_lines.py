"""Wrong command lines: one line that names the key and what is allowed, status 1 or 2, and nothing written."""

import shlex

import pytest

from lab.choices import names

SMALL = "data=text data.file=text.txt tokenizer=byte model=tiny threads=1"


def menu(group):
    """A group's choices as a message lists them."""
    return ", ".join(names(group))


WRONG = [
    # names of groups, choices and keys
    ("group", "train nrom=rmsnorm", 1, ["unknown key 'nrom'", "attn, ", "did you mean 'norm'?"]),
    ("choice", "train norm=rmsnrom", 1, ["norm 'rmsnrom'", menu("norm"), "did you mean 'rmsnorm'?"]),
    ("size", "train model=tny", 1, ["model 'tny'", "gpt2, medium, small, tiny", "did you mean 'tiny'?"]),
    ("key", "train norm.epz=1", 1, ["unknown key 'norm.epz'", "norm=rmsnorm has eps", "did you mean 'norm.eps'?"]),
    ("key-below-value", "explain norm.eps.x=1", 1, ["unknown key 'norm.eps.x'", "norm.eps is a value"]),
    ("key-without-section", "explain lr=1", 1, ["unknown key 'lr'", "did you mean 'optim.lr'?"]),
    (
        "key-of-other-choice",
        "explain attn.n_kv_heads=1",
        1,
        ["attn.n_kv_heads", "attn=mha has", "attn=chunked or ", " or gqa or "],
    ),
    ("key-of-combined", "explain stability.qk_norm.eps=1", 1, ["stability.qk_norm.eps", "stability=[qk_norm]"]),
    ("added-key", "train +foo=bar", 1, ["unknown key 'foo'", "attn, "]),
    ("added-inner-key", "explain +norm.foo=1", 1, ["unknown key 'norm.foo'", "eps"]),
    ("hydra-key", "train hydra.verbosee=1", 1, ["unknown key 'hydra.verbosee'", "--cfg hydra"]),
    ("launcher", "train hydra/launcher=joblbi", 1, ["hydra/launcher 'joblbi'", "basic"]),
    ("alias", "train attention=gqaa", 1, ["attn 'gqaa'", menu("attn"), "did you mean 'gqa'?"]),
    ("explain-choice", "explain norm=rmsnrom", 1, ["lab explain: norm 'rmsnrom'", "did you mean 'rmsnorm'?"]),
    # forms
    ("no-choice", "explain activation=", 1, ["activation ''", menu("activation")]),
    ("no-value", "train foo", 1, ["'foo'", "foo=VALUE"]),
    ("no-choice-no-equals", "train norm", 1, ["'norm'", menu("norm")]),
    ("no-key", "train =1", 1, ["'=1'", "KEY=VALUE"]),
    ("open-list", "train stability=[qk_norm", 1, ["'stability=[qk_norm'", "KEY=[A,B]", "closed"]),
    ("several-values", "train seed=1,2", 1, ["seed=1,2", "-m", "seed=[1,2]"]),
    ("null-choice", "explain norm=null", 1, ["norm 'null'", menu("norm")]),
    ("list-of-one", "explain norm=[rmsnorm]", 1, ["norm takes one choice", menu("norm")]),
    ("dict-choice", "explain norm={a:1}", 1, ["norm", menu("norm")]),
    ("choice-elsewhere", "explain norm=../data/sotu", 1, ["norm '../data/sotu'", menu("norm")]),
    ("removed-group", "train ~norm", 1, ["'~norm'", menu("norm")]),
    ("removed-key", "train ~train.steps", 1, ["'~train.steps'"]),
    ("added-group", "train +norm=rmsnorm", 1, ["'+norm=rmsnorm'", "without '+'"]),
    ("package", "train norm@x=rmsnorm", 1, ["norm@x=rmsnorm", "norm=VALUE"]),
    ("section", "explain train=3", 1, ["train 3", "section"]),
    ("not-set", "explain seed=???", 1, ["seed is not set"]),
    ("interpolation", "train norm.eps=${foo}", 1, ["norm.eps", "'foo' not found"]),
    # combined groups
    ("none-and-others", "explain stability=[none,qk_norm]", 1, ["stability [none, qk_norm]", "'none' excludes"]),
    ("combined", "train stability=[qk_norm,zloss]", 1, ["stability 'zloss'", menu("stability"), "'z_loss'?"]),
    ("twice", "explain stability=[z_loss,z_loss]", 1, ["stability", "'z_loss' is given twice"]),
    ("empty-list", "explain stability=[]", 1, ["stability []", "stability=none"]),
    # values
    ("word-for-number", "train norm.eps=abc", 1, ["norm.eps 'abc' must be a number"]),
    ("range", "train norm.eps=-1", 1, ["norm.eps -1.0 must be > 0"]),
    ("nan", "explain norm.eps=nan", 1, ["norm.eps nan must be > 0"]),
    ("true-for-number", "explain norm.eps=true", 1, ["norm.eps true must be a number"]),
    ("word-for-count", "explain train.steps=ten", 1, ["train.steps 'ten' must be a whole number"]),
    ("zero-steps", "explain train.steps=0", 1, ["train.steps 0 must be >= 1"]),
    ("part-of-a-step", "explain train.steps=1.5", 1, ["train.steps 1.5 must be a whole number"]),
    ("heads", "explain model.n_heads=3", 1, ["model.n_heads 3 must divide model.dim 64"]),
    ("layers", "explain model.n_layers=0", 1, ["model.n_layers 0 must be >= 1"]),
    ("kv-heads", "explain attn=gqa attn.n_kv_heads=3", 1, ["attn.n_kv_heads 3", "model.n_heads 2"]),
    ("odd-heads", "explain model.head_dim=31", 1, ["model.head_dim 31", "even", "position=rope"]),
    ("lr-nan", "explain optim.lr=nan", 1, ["optim.lr nan must be > 0"]),
    ("lr-zero", "explain optim.lr=0", 1, ["optim.lr 0.0 must be > 0"]),
    ("micro-batch", "explain train.micro_batch_size=5", 1, ["train.micro_batch_size 5", "train.batch_size 16"]),
    ("precision", "explain precision=fp16", 1, ["precision 'fp16'", "auto, fp32, bf16", "'bf16'?"]),
    ("precision-far", "explain precision=int4", 1, ["precision 'int4'", "auto, fp32, bf16"]),
    ("device", "explain device=tpu", 1, ["device 'tpu'", "auto, cpu, cuda, mps"]),
    ("no-gpu", "train device=cuda", 1, ["device 'cuda' is not on this machine", "cpu"]),
    ("threads", "explain threads=0", 1, ["threads 0 must be >= 1"]),
    ("seed", "explain seed=-1", 1, ["seed -1 must be >= 0"]),
    ("vocabulary", "train model.vocab_size=10", 1, ["model.vocab_size 10", "tokenizer's 257"]),
    ("bpe", "explain tokenizer=bpe tokenizer.vocab_size=100", 1, ["tokenizer.vocab_size 100 must be >= 257"]),
    ("scale", "explain attn.scale=sqrt", 1, ["attn.scale 'sqrt'", "inv_sqrt_head_dim, inv_head_dim"]),
    ("depth", "explain model.n_layers=null", 1, ["model.aspect None", "n_layers None", "one of the two"]),
    ("depth-twice", "explain model.aspect=8", 1, ["model.aspect 8", "n_layers 2", "one of the two"]),
    ("embed-scale", "explain model.embed_scale=sqrt", 1, ["model.embed_scale 'sqrt'", "sqrt_dim"]),
    ("theta", "explain attn=chunked attn.global_theta=3", 1, ["attn.global_theta 3", "attn.global_every"]),
    ("mla-qk-norm", "explain attn=mla stability=qk_norm", 1, ["attn=mla with stability=qk_norm is refused"]),
    # presets and matching
    ("preset", "train preset=gemma", 1, ["preset 'gemma' is not one of", "did you mean 'gemma"]),
    ("preset-size", "explain preset_size=published", 1, ["preset_size 'published' needs a preset"]),
    ("preset-size-word", "explain preset_size=large preset=gemma2", 1, ["preset_size 'large'", "published"]),
    ("match", "explain match=parms", 1, ["match 'parms'", "flops, none, params", "did you mean 'params'?"]),
    ("match-key", "explain match=params match.to=[nrm=rmsnorm]", 1, ["match.to: unknown key 'nrm'", "'norm'?"]),
    ("match-none", "explain match.to=[norm=none]", 1, ["match.to ['norm=none'] needs match=params"]),
    ("match-width", "explain match=params activation.d_ff=8", 1, ["match=params", "activation.d_ff 8"]),
    ("match-far", "train match=params model.dim=512", 1, ["match=params cannot be reached", "activation.d_ff 8,"]),
    ("match-match", "explain match=params match.to=[match=flops]", 1, ["match.to ['match=flops'] is matched"]),
    # another run's weights
    ("init-from", "train init_from=nope", 1, ["init_from: run 'nope' is not there"]),
    ("init-from-sweep", "train -m init_from=null,12e4", 1, ["init_from: run '12e4' is not there", "none was"]),
    ("init-from-pool", "explain init_from_pool=max", 1, ["init_from_pool 'max'", "mean, first"]),
    # data
    ("no-file", "train data.file=[]", 1, ["data.file is not set", "data.file=book.txt"]),
    ("missing-file", "train data.file=gone.txt", 1, ["data.file 'gone.txt' does not exist"]),
    ("empty-file", "explain data.file=empty.txt", 1, ["data.file 'empty.txt' is empty"]),
    ("binary-file", "explain data.file=binary.txt", 1, ["data.file 'binary.txt' is not a text file"]),
    ("few-words", "explain data.file=words.txt", 1, ["train tokens", "model.max_seq_len 64 needs at least 128"]),
    ("short-train", "train data.file=short.txt", 1, ["train tokens", "model.max_seq_len 64 needs at least 128"]),
    ("folder", "explain data.file=.", 1, ["data.file '.' is a folder"]),
    ("below-a-file", "explain data.file=text.txt/x", 1, ["data.file 'text.txt/x'"]),
    # options
    ("option", "train --nonsense", 2, ["'--nonsense'"]),
    ("near-option", "train --mutlirun seed=1,2", 2, ["'--mutlirun'", "did you mean '--multirun'?"]),
    ("sweep-and-show", "train -m --cfg job", 2, ["--multirun and --cfg exclude each other"]),
    ("show-what", "train --cfg jbo", 2, ["--cfg 'jbo'", "job, hydra, all", "did you mean 'job'?"]),
    ("resolve", "train --resolve", 2, ["--resolve", "--cfg or --help"]),
    ("cfg-package", "train --cfg job --package nope", 1, ["'nope'", "not found in config"]),
    ("rerun", "train --experimental-rerun x", 2, ["--experimental-rerun"]),
    ("config-dir", "train --config-dir /nowhere", 1, ["--config-dir '/nowhere' is not a folder"]),
    ("config-name", "train --config-name trian", 1, ["--config-name 'trian'", "train"]),
    ("config-path", "train --config-path /nowhere", 1, ["/nowhere"]),
    ("explain-config-dir", "explain --config-dir /nowhere", 1, ["--config-dir '/nowhere' is not a folder"]),
    ("explain-sweep", "explain -m seed=1,2", 2, ["'-m'"]),
    ("torn-yaml", "train --config-dir broken norm=torn", 1, ["torn.yaml"]),
    ("empty-yaml", "explain --config-dir broken norm=empty", 1, ["norm"]),
    # sweeps
    ("sweep-choice", "train -m norm=rmsnorm,rmsnrom", 1, ["norm 'rmsnrom'", "did you mean 'rmsnorm'?"]),
    ("sweep-null", "train -m norm=rmsnorm,null", 1, ["norm 'null'", menu("norm")]),
    ("sweep-key", "train -m nrom=a,b", 1, ["unknown key 'nrom'", "did you mean 'norm'?"]),
    ("sweep-value", "train -m norm.eps=1e-5,-1", 1, ["norm.eps -1.0 must be > 0", "the run norm.eps=-1;"]),
    ("sweep-size", "train -m model.vocab_size=300,10", 1, ["model.vocab_size 10", "tokenizer's 257"]),
    ("sweep-range", "train -m seed=range(1", 1, ["'seed=range(1'", "closed"]),
]

ELSEWHERE = [
    ("command", "trian", 2, ["unknown command 'trian'", "explain", "did you mean 'train'?"]),
    ("format", "table --format jsn", 2, ["--format 'jsn'", "text, markdown, latex", "did you mean 'json'?"]),
    ("sizes", "table B --context 9", 1, ["--context is for table D alone"]),
    ("path", "table /nowhere", 1, ["/nowhere"]),
    ("stored", "table --stored prats", 1, ["--stored 'prats' is not a stored study", "did you mean 'parts'?"]),
    ("stored-kind", "plot span --stored parts -o x.svg", 1, ["'span' is drawn from models", "--stored is for"]),
    ("store", "store nope", 1, ["study 'nope' is not there"]),
    ("store-nothing", "store", 2, ["name a study, or with --stored one that was stored"]),
    ("topic", "claims nrom", 1, ["'nrom' is no claim and no topic", "did you mean 'norm'?"]),
    ("subcommand", "data lst", 2, ["'lst'", "did you mean 'list'?"]),
    ("profile-choice", "profile norm=rmsnrom", 1, ["lab profile: norm 'rmsnrom'", "did you mean 'rmsnorm'?"]),
    ("profile-steps", "profile --steps 1", 1, ["--steps 1 must be >= 2"]),
    ("profile-picture", "profile -o step.jpg", 1, ["-o 'step.jpg'", ".png, .svg, .pdf"]),
    ("doctor-override", "doctor norm=rmsnorm", 2, ["'norm=rmsnorm' is not an option or argument"]),
    ("explain-option", "explain --fromat json", 2, ["'--fromat'", "did you mean '--format'?"]),
    ("eval-run", "eval nope", 1, ["run 'nope' is not there"]),
    ("eval-positions", "eval nope --positions 0", 2, ["--positions '0' must be at least 1"]),
    ("measure-run", "measure nope", 1, ["lab measure: run 'nope' is not there"]),
    ("measure-name", "measure nope --only lenghts", 2, ["--only 'lenghts'", "did you mean 'lengths'?"]),
    ("completion", "-sc install=fish", 2, ["'install=fish'", "install=bash"]),
]

FAST = {
    "group",
    "choice",
    "key",
    "alias",
    "no-choice",
    "open-list",
    "combined",
    "range",
    "missing-file",
    "option",
    "sweep-and-show",
    "config-dir",
    "sweep-choice",
    "command",
    "format",
    "subcommand",
    "completion",
}
"""Rows that between them go every way to a message: Hydra takes its time for each, so the others are slow."""


def row(case):
    name, line, status, words = case
    argv = shlex.split(line)
    if case in WRONG:
        argv[1:1] = SMALL.split()
    return pytest.param(argv, status, words, id=name, marks=[] if name in FAST else pytest.mark.slow)


def everything_below(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


@pytest.fixture
def one_composition(monkeypatch):
    """Leave out the composition by which Hydra looks whether a YAML asks for a sweep: it is slow."""
    from hydra._internal.hydra import Hydra

    monkeypatch.setattr(Hydra, "get_mode", lambda *args, **options: None)


@pytest.mark.usefixtures("one_composition")
@pytest.mark.parametrize(("argv", "status", "words"), [row(case) for case in [*WRONG, *ELSEWHERE]])
def test_one_line_says_what_is_wrong_and_nothing_is_written(argv, status, words, here, outputs, run, monkeypatch):
    if "device=cuda" in argv:
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    before = everything_below(here)
    found, out, err = run(*argv)
    assert found == status
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    for word in words:
        assert word in err
    assert "Error executing job" not in err
    assert "Traceback" not in err
    assert everything_below(here) == before
    assert not outputs.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra", [pytest.param([], id="run"), pytest.param(["-m", "seed=1,2"], id="sweep", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("place", ["text.txt/deeper", pytest.param("/proc/nope", marks=pytest.mark.slow)])
def test_outputs_that_cannot_be_made_are_said_once(place, extra, here, run, monkeypatch):
    monkeypatch.setenv("LAB_OUTPUTS", str(here / place))
    status, out, err = run("train", *SMALL.split(), *extra)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert place in err
    assert "LAB_OUTPUTS" in err


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["train", "norm=rmsnrom"], 1),
        pytest.param(["train", *SMALL.split(), "norm.eps=-1"], 1, marks=pytest.mark.slow),
        pytest.param(
            ["train", "-m", *SMALL.split(), "norm=rmsnorm,none", "norm.eps=-1"], 1, marks=pytest.mark.slow
        ),
        pytest.param(["train", "--nonsense"], 2, marks=pytest.mark.slow),
    ],
    ids=["compose", "decode", "sweep", "option"],
)
def test_a_process_of_its_own_says_the_same_one_line(argv, status, here, outputs, lab):
    before = everything_below(here)
    done = lab(*argv)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1)
    assert done.stderr.startswith("lab train: ")
    assert "HYDRA_FULL_ERROR" not in done.stderr
    assert everything_below(here) == before
    assert not outputs.exists()


def test_a_bug_is_not_taken_for_a_mistake_of_the_users(run, here, monkeypatch):
    from lab.config import RunConfig

    def decode(cfg, given):
        raise ValueError("a bug")

    monkeypatch.setattr(RunConfig, "decode", staticmethod(decode))
    with pytest.raises(ValueError, match="a bug"):
        run("train", *SMALL.split())
