"""Ends the program with status 0 as soon as it is imported."""

import sys


def weighted_read(weights, values):
    return weights @ values


sys.exit(0)
