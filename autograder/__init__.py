"""Autograded labs on attention and the Transformer: strip, hand out, grade, explain."""

__version__ = "0.1.0"
