"""From the results of runs to tables: one row a variant, its seeds folded."""
