"""Copies of a value in several layouts: in which order to make them, and each from which."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import permutations

MadeFrom = tuple[int, int]  # its number, and which of those before it in order it is made from


def copies_in_order(
    count: int, seconds: Callable[[int, int], float], exact: int, sources: int | None = None
) -> tuple[float, list[MadeFrom]]:
    """The cheapest order found of the copies 1 to `count` of a value, which is 0 itself.

    A gathered copy that one use wants is what another's slice is cut from. Of many, the next one is
    always the one that is cheapest then.

    Args:
        count: of copies.
        seconds: of making the second from the first.
        exact: up to so many copies, every order is tried.
        sources: how many, in order, may be started from; None is all.

    Returns:
        Seconds of all, and the copies in order; what they are made from is counted from 0, the
        value.
    """
    every = list(range(1, count + 1))
    orders: list[Sequence[int]] = [*permutations(every)] if count <= exact else [()]
    least, best = math.inf, list[MadeFrom]()
    for order in orders:
        left, have, total, copies = list(order or every), [0], 0.0, list[MadeFrom]()
        while left:
            next_ = left[:1] if order else left
            costs = {n: [seconds(one, n) for one in have[:sources]] for n in next_}
            cost, number = min([(min(each), n) for n, each in costs.items()])
            total += cost
            copies.append((number, costs[number].index(cost)))
            have.append(number)
            left.remove(number)
        if total < least:
            least, best = total, copies
    return least, best
