"""All that is known of each operation; `table.py` says in which file. None of it knows a mesh.

An operation is an `OpDef` (`opdef.py`): its rule in factors (`rule.py`), its algorithms, what is
beyond the end of its dimensions (`padding.py`), how exact it is (`accuracy.py`). `print_rules.py`
shows rules. Operations by what they do, with the files that serve them alone:

- elements by themselves: `elementwise.py`, `nullary.py` (constants, iota, random bits), `shape.py`,
  `manual.py` (single devices), `rewritten.py` and `normalisation.py` (written as others).
- products and matrices: `contraction.py`, `ragged.py`, `linalg.py`, `tall_qr.py`.
- cuts: `cutting.py` with `cut_dims.py`, `joins.py` and `longer_cuts.py`; `splice.py`; `dynamic.py`.
- indices: `gather.py`, `scatter.py` and `gather_dot.py`, all by `indexing.py`.
- reductions: `reductions.py` with `extremes.py`, `totals.py` and `reduced_apart.py`.
- windows: `windows.py`, `convolution.py` and `select_and_scatter.py`, by `halo.py` and `reach.py`,
  or by `own_elements.py` and `straddling.py`;
  `ends.py` and `folds.py` for paddings of `jnp.pad`, `longer_windows.py` and `kernel_ends.py` for
  dimensions that were made longer, `xla_convolutions.py`.
- prefixes: `scans.py`, and `associative.py` for any body.
- orders: `sorting.py`, `columnsort.py`, `top_k.py`, `counting.py`, `ranks.py`, `searching.py`;
  `keys.py`.
- Fourier transforms: `fourier.py`, `four_steps.py`, `transform_rows.py`.
- calls: `custom_calls.py`, `named_calls.py` (XLA's own), `fused_attention.py`, `sparse.py`,
  `callbacks.py` (Python), `definition.py`, `shardy_rules.py` and `bodies.py` (a user's).

What many of them read:

- facts of a program: `attributes.py`, `elements.py` (types), `reduction.py`, `combiners.py` and
  `comparators.py` (bodies), `patterns.py`, `known.py`, `magnitude.py` and `numbers.py` (values),
  `linear.py`.
- what shards send one another: `exchanges.py`, `rounds.py`, `dealt_rows.py`, `whole_shards.py`,
  `narrow.py`.
- programs written anew: `loops.py`, `rows.py` (other numbers of rows), `batched.py` (in blocks).
"""
