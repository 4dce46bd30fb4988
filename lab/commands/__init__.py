"""One file a subcommand: ``main(argv)`` and, as the first line of its docstring, its help."""
