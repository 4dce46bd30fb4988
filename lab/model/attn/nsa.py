"""Native sparse attention, gates on a compressed, a selected and a window branch: arXiv:2502.11089, equation 5.

o_t = sum over branches c of g_c softmax(q k_c) v_c, each branch with keys and values of its own; g_c is the
sigmoid of a linear map of what enters the branch, one number per head (the paper says an MLP). Compression sees a
learned key and value for each completed block of ``block`` tokens, one every ``stride`` tokens. The weights of
those, summed over the query heads of a group, score blocks of ``select_block`` tokens; a query attends to the
tokens of the ``n_selected`` best, the first block and the latest two always among them. No gradient flows through
the choice. Before any block is complete the compressed branch is zero.

Positions and their biases act in the selected and the window branch. Compressed keys have places inside their block
and meet queries that are not rotated; the paper leaves that open, and implementations differ. The hooks of
``stability`` act in all branches, with one set of gains for the three; on compressed keys and values, not on what
they are made of. With biases of scores, dropout or changed scores all is computed by masks; so is the selected
branch for fewer queries than a block has tokens, as in decoding.
"""

from dataclasses import dataclass

from lab.component import check_number
from lab.model.attention import GroupedConfig, score_scale
from lab.model.attn import Attention, AttnParts
from lab.model.layer_spec import LayerSpec
from lab.model.nsa_attention import Biases, NativeSparseAttention
from lab.model.nsa_blocks import INITIAL, LOCAL, Sizes
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(GroupedConfig):
    """Three branches; the sizes are tokens, or follow from model.max_seq_len and each other."""

    stride: int | None
    """Tokens from one compression block to the next, d; null: ``stride_share``. Published: 16."""
    stride_share: float
    """That number over model.max_seq_len, used when ``stride`` is null; in (0, 1]."""
    block: int | None
    """Tokens of a compression block, l, a multiple of the stride; null: ``block_strides``. Published: 32."""
    block_strides: int
    """Strides of a compression block, used when ``block`` is null, >= 1."""
    select_block: int | None
    """Tokens of a selection block, l', a multiple of the stride; null: ``select_strides``. Published: 64."""
    select_strides: int
    """Strides of a selection block, used when ``select_block`` is null, >= 1."""
    n_selected: int | None
    """Blocks that a query attends to, n, the three that are always kept counted; null: ``selected_share``.
    Published: 16."""
    selected_share: float
    """Tokens of those over model.max_seq_len, used when ``n_selected`` is null; in (0, 1], or three blocks."""
    window: int | None
    """Keys of the window branch, the query's own counted, w; null: ``window_share``. Published: 512."""
    window_share: float
    """That number over model.max_seq_len, used when ``window`` is null; in (0, 1]."""
    gate_bias: bool
    """Whether the map to the gates has a bias."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("stride_share", "selected_share", "window_share"):
            check_number(key, getattr(self, key), above=0, most=1)
        for key in ("stride", "block", "block_strides", "select_block", "select_strides", "window"):
            if getattr(self, key) is not None:
                check_number(key, getattr(self, key), least=1)
        if self.n_selected is not None:
            check_number("n_selected", self.n_selected, least=INITIAL + LOCAL)

    def sizes(self, dims: Dims) -> Sizes:
        """The sizes with nothing left open.

        Raises:
            ConfigError: the stride does not divide a block.
        """
        stride = self.stride or max(1, round(self.stride_share * dims.max_seq_len))
        select_block = self.select_block or self.select_strides * stride
        share = round(self.selected_share * dims.max_seq_len / select_block)
        return Sizes(
            block=self.block or self.block_strides * stride,
            stride=stride,
            select_block=select_block,
            n_selected=self.n_selected or max(INITIAL + LOCAL, share),
            window=self.window or max(1, round(self.window_share * dims.max_seq_len)),
        )

    def branch(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The module of one layer."""
        scale = score_scale(self.scale, dims.head_dim, parts.scale(dims.head_dim))
        biases = Biases(q=self.q_bias, k=self.k_bias, v=self.v_bias, gate=self.gate_bias, out=self.out_bias)
        return NativeSparseAttention(self.sizes(dims), dims, self.kv_heads(dims), scale, biases, layer, parts)
