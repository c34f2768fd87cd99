"""Returns and raises objects that run code wherever they are unpickled, and texts that run where they are evaluated."""

import pickle

PLACE = "@RESULTS@/attack-was-here"


class Runs:
    def __reduce__(self):
        return open, (PLACE, "w")


class Fails(Exception):
    def __reduce__(self):
        return open, (PLACE, "w")


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_two_loop_single(query, key, value):
    return Runs()


def scaled_dot_product_two_loop_batch(query, key, value):
    raise Fails(pickle.dumps(Runs()))


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    return pickle.dumps(Runs()), f"open({PLACE!r}, 'w')"
