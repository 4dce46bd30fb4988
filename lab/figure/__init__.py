"""Figures: one file a kind, each with ``draw``; ``lab plot`` finds them by listing this folder."""
