"""Slices, pads and concatenations along split dimensions, as what shards do with their neighbours.

`jnp.roll`, `jnp.pad`, stencils, convolutions and `x.at[1:-1].set(y)` read a few rows of the next
shard. JAX writes them as slices, pads and concatenations of sizes that no mesh axis divides. The
patterns here write them as `dtensor.splice`, as windows that know their padding, or as choices
between values, of sizes that it divides. Shards then exchange the rows that they lack: halos.

What all patterns read, beside `rewriting/`:

- `pieces.py`: which elements of which values stand where in a value, along one dimension.
- `read_along.py`: what is computed of each element by itself, and so of slices as well.
- `modes.py`: with which of its own elements a value was padded, as `jnp.pad` does in its modes.
- `windows.py`: how the windows of a convolution or a reduction walk.

The patterns, in the order in which `fuse.py` rewrites them:

- `merges.py`: `x.reshape(-1)` of uneven rows, computed before they are merged (`merged_dims.py`,
  `merged_values.py`), and `jnp.concatenate([x, x])` of such (`merged_blocks.py`).
- `banded_products.py`: `jax.image.resize` and other products with few diagonals, by frames.
- `known_positions.py`: `jnp.take(x, constants)` and updates of constant places: `runs.py` as slices
  and reversals, `frames.py` and `columns.py` as windows that overlap, `digits.py` as exchanged
  blocks, `nearby.py` as one frame for each shard, which reads places of its own,
  `known_windows.py` as one slice or pad.
- `overlapped_frames.py`: `jax.scipy.signal.istft`, which moves parts of frames by rows.
- `padded_scans.py`: sums from the start of what was padded, as what is put around them, and
  `sliced_scans.py` for what is cut out of them; both read `cumulative_windows.py`.
- `block_rows.py`: cuts of whole blocks, where a dimension is read as rows of such, as cuts of rows;
  `regrouped_rows.py` for rows of one length that are read as rows of another.
- `transforms.py`: Fourier transforms of which few modes are read, or are not zero: `nonzero.py`
  tells where.
- `window_padding.py`: windows over `jnp.pad(x, 1)`, and pooling.
- `padding_modes.py`: windows over `jnp.pad(x, 1, mode="wrap")`; `padding_gradients.py` for their
  gradients, and `early_slices.py` for slices of what was padded.
- `unit_reductions.py`: sums of one row, as gradients have them.
- `summed_pads.py`: sums of values that are padded alike along a split dimension.
- `moved_terms.py`: sums of most rows, and of few moved elsewhere, as gradients of paddings are.
- `joined_pads.py`: sums of padded values, the gradients of slices, as concatenations.
- `strides.py`: `x[2::2]` as blocks and a cut, `x[::3]` of what is padded to whole blocks.
- `chains.py`: rolls and stencils as one splice; `slices_in_place.py` for what is computed between
  the cuts, and `uses.py` for `x.at[1:-1].set(y)` and sums of it.
- `single_cuts.py`: slices of one joined part; what is left of slices of several dimensions, one
  dimension at a time.
- `narrow_moves.py`: conversions in front of what moves, or behind it, where the type is narrower.
"""
