"""Tables of the paper from measured runs, one module per layout; `registry.build_table` makes any of them."""
