"""From text to batches: corpora, tokenizers, the cache of token streams, the order of training windows.

Nothing here imports torch, Hydra or OmegaConf; ``datasets`` and ``tokenizers`` are imported where they are
used, because they are slow to import.
"""
