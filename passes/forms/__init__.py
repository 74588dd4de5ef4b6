"""What a program does, where it says so in several operations or in a loop.

`find.py` is the pass, and lists the forms in order:

- vectors joined of arrays, which loops carry: `joined.py`, written by `in_parts.py`.
- scans in many operations: `associative_scans.py`, read by `levels.py` and `weaves.py`; their
  gradients in `scan_gradients.py` and `scan_adjoints.py`, by what `terms.py` knows of their bodies;
  `reversed_windows.py` for sums from the end, `reversed_reductions.py` for the last place of many.
- orders: `orders.py` (sorts that count places), `partial_sorts.py` (sorts of which few places are
  read, `few_places.py`, or written in gradients, `written_places.py`), `searches.py` (bisection).
- indices: `gathered.py` (products of rows), `owned_rows.py` (paged attention), `carried_places.py`
  (the last row before each place where there is one), `counted_rows.py`
  and `row_places.py` (each row by itself).
- matrices: `factors.py` (tall QR), `tall_svd.py`.
- loops: `chunked.py` tries to run blocks of trips on shards. `trips.py` reads a loop,
  `blocked_body.py` writes its blocks. What is carried from block to block: `carries.py`, as an
  affine map in `affine.py` (by `affine_maps.py`), between bounds in `clamps.py`, in stages in
  `staged.py`, one block after another in `serial.py`. `row_forms.py` and
  `carried_rows.py` bring other loops into this form.
  `reversed_loops.py`: loops over reversed rows, each written by `reversed_trips.py`, of what
  `reversed_values.py` moves reversals through. `invariant.py`: what every trip computes alike.

What they compare and follow: `alike.py` and `finite.py` (the same computation on other rows),
`walked.py` (which dimensions an index walks), `scalars.py`.
"""
