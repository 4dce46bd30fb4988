"""Statistics of series and of seeds: pure functions of arrays, which know no files and no configs."""
