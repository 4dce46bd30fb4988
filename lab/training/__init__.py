"""Training one run: what it resolves to, its state, its loop, what it leaves."""
