"""Adapters by which Hydra finds lab's plugins; the logic lives in ``lab``."""
