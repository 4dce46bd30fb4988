"""Where a training step goes: time, FLOPs and memory of its parts, and the floor under it."""
