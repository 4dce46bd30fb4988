"""Fixed attention, a query's own block and the last keys of earlier ones: arXiv:1904.10509, section 4.2.

With blocks of l positions, near: floor(s / l) = floor(t / l); far: s mod l >= l - c, the last c columns of each
block. By the formula the first l - c queries have no far key at all; here they see themselves. In the released
code heads may take different columns of a block; here all take the last. Far layers cache the columns alone; with
``combine`` heads every head caches what either half needs.
"""

from dataclasses import dataclass

from lab.component import check_number
from lab.errors import ConfigError
from lab.model.attention_mask import ChunkAndColumns, Chunked, Columns, Mask
from lab.model.factorized_attention import FactorizedConfig, root
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(FactorizedConfig):
    """For sequences without a period, as text; the columns sum up their block."""

    block: int | None
    """Positions of a block; null: sqrt of model.max_seq_len."""
    columns: int
    """Last keys of a block that later ones see, c; 8 to 32 in blocks of 128 or 256 in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("columns", self.columns, least=1)
        if self.block is not None:
            check_number("block", self.block, least=1)

    def steps(self, dims: Dims) -> tuple[Mask, Mask, Mask]:
        """Blocks, columns, and both.

        Raises:
            ConfigError: there are more columns than a block has.
        """
        block = self.block if self.block is not None else root(dims)
        if self.columns > block:
            raise ConfigError(f"attn.columns {self.columns} must be <= attn.block, here {block}")
        return Chunked(block), Columns(block, self.columns), ChunkAndColumns(block, self.columns)
