"""The twenty checks for this framework; `benchmarks/native.py` holds the same for the tools that run them beside the code."""

import numpy as np
from gradescope_utils.autograder_utils.decorators import number, weight

from autograder import laws
from autograder.check import check, expect

HEAD = {
    "q__weight": (3, 4), "q__bias": (3,), "k__weight": (3, 4), "k__bias": (3,), "v__weight": (6, 4), "v__bias": (6,)
}  # fmt: skip


def twenty(at, target, after=()):
    """Two points each; section and place in it are the number."""

    def decorate(function):
        return number(at)(weight(2)(check(target=target, after=after)(function)))

    return decorate


def head(side, parameters):
    """A head with the given parameters."""
    return side.SelfAttention(4, 3, 6).load(parameters)


def several(side, parameters):
    """Two heads with the given parameters."""
    return side.MultiHeadAttention(2, 4, 3).load(parameters)


def of_several(probes):
    """Parameters of two heads, all distinct."""
    sizes = {
        f"heads__{h}__{p}__{kind}": shape
        for h in range(2)
        for p in "qkv"
        for kind, shape in (("weight", (3, 4)), ("bias", (3,)))
    }
    return probes.parameters(**sizes, linear_mult__weight=(4, 6), linear_mult__bias=(4,))


@twenty("9.1.1", "weighted_read")
def read_values(student, reference, probes):
    """a weighted read"""
    weights, values = probes.uniform(7, low=0, high=1), probes.normal(7, 4)
    expect(student.weighted_read(weights, values)).equals(reference.weighted_read(weights, values))


@twenty("9.1.2", "weighted_read", "read_values")
def read_shape(student, probes):
    """its shape"""
    expect(student.weighted_read(probes.uniform(3), probes.normal(3, 5))).has_shape(5)


@twenty("9.1.3", "two_loop_single")
def loop_values(student, reference, probes):
    """two loops"""
    q, k, v = (array[0] for array in probes.self_attention())
    expect(student.two_loop_single(q, k, v)).equals(reference.two_loop_single(q, k, v))


@twenty("9.1.4", "two_loop_single", "loop_values")
def loop_one_position(student, probes):
    """one position reads itself"""
    q, k, v = probes.normal(1, 4), probes.normal(1, 4), probes.normal(1, 6)
    expect(student.two_loop_single(q, k, v)).equals(v)


@twenty("9.1.5", "no_loop_batch")
def no_loop_values(student, reference, probes):
    """no loop"""
    probe = probes.attention()
    expect(student.no_loop_batch(*probe)[0]).equals(reference.no_loop_batch(*probe)[0])


@twenty("9.1.6", "no_loop_batch", "no_loop_values")
def no_loop_rows(student, probes):
    """rows sum to one"""
    laws.rows_sum_to_one(student.no_loop_batch(*probes.attention())[1])


@twenty("9.1.7", "no_loop_batch", "no_loop_values")
def no_loop_mask(student, reference, probes):
    """with a mask"""
    probe, mask = probes.attention(), probes.mask()
    expect(student.no_loop_batch(*probe, mask)[0]).equals(reference.no_loop_batch(*probe, mask)[0])


@twenty("9.1.8", "no_loop_batch", "no_loop_values")
def no_loop_order(student, probes):
    """permutation equivariance"""
    x = probes.normal(2, 6, 4)
    laws.permutation_equivariant(lambda x: student.no_loop_batch(x, x, x)[0], x, probes.permutation(6))


@twenty("9.1.9", "SelfAttention")
def head_values(student, reference, probes):
    """a head"""
    x, y, parameters = probes.normal(2, 5, 4), probes.normal(2, 7, 4), probes.parameters(**HEAD)
    expect(head(student, parameters)(x, y, y)).equals(head(reference, parameters)(x, y, y))


@twenty("9.1.10", "SelfAttention", "head_values")
def head_mask(student, reference, probes):
    """a head with a mask"""
    x, mask, parameters = probes.normal(2, 5, 4), probes.mask(2, 5, 5), probes.parameters(**HEAD)
    expect(head(student, parameters)(x, x, x, mask)).equals(head(reference, parameters)(x, x, x, mask))


@twenty("9.2.1", "concat_heads")
def concat_values(student, reference, probes):
    """join"""
    heads = [probes.normal(2, 5, 3) for _ in range(3)]
    expect(student.concat_heads(heads)).equals(reference.concat_heads(heads))


@twenty("9.2.2", "concat_heads", "concat_values")
def concat_one(student, probes):
    """one head alone"""
    only = probes.normal(2, 5, 3)
    expect(student.concat_heads([only])).equals(only)


@twenty("9.2.3", "MultiHeadAttention")
def several_values(student, reference, probes):
    """two heads"""
    x, parameters = probes.normal(2, 5, 4), of_several(probes)
    expect(several(student, parameters)(x, x, x)).equals(several(reference, parameters)(x, x, x))


@twenty("9.2.4", "MultiHeadAttention", "several_values")
def several_mask(student, reference, probes):
    """two heads with a mask"""
    x, mask, parameters = probes.normal(2, 5, 4), probes.mask(2, 5, 5), of_several(probes)
    expect(several(student, parameters)(x, x, x, mask)).equals(several(reference, parameters)(x, x, x, mask))


@twenty("9.2.5", "MultiHeadAttention", "several_values")
def several_order(student, probes):
    """permutation equivariance of two heads"""
    module = several(student, of_several(probes))
    laws.permutation_equivariant(lambda x: module(x, x, x), probes.normal(2, 6, 4), probes.permutation(6))


@twenty("9.3.1", "FeedForwardBlock")
def ffn_values(student, reference, probes):
    """the feed-forward network"""
    sizes = {"linear1__weight": (7, 4), "linear1__bias": (7,), "linear2__weight": (4, 7), "linear2__bias": (4,)}
    x, parameters = probes.normal(2, 5, 4), probes.parameters(**sizes)
    expected = reference.FeedForwardBlock(4, 7).load(parameters)(x)
    expect(student.FeedForwardBlock(4, 7).load(parameters)(x)).equals(expected)


@twenty("9.3.2", "FeedForwardBlock", "ffn_values")
def ffn_order(student, probes):
    """permutation equivariance of the feed-forward network"""
    laws.permutation_equivariant(student.FeedForwardBlock(4, 7), probes.normal(2, 6, 4), probes.permutation(6))


@twenty("9.3.3", "LayerNormalization")
def norm_values(student, reference, probes):
    """the norm, with gamma and beta"""
    x, parameters = probes.normal(2, 5, 4), probes.parameters(gamma=(4,), beta=(4,))
    expected = reference.LayerNormalization(4).load(parameters)(x)
    expect(student.LayerNormalization(4).load(parameters)(x)).equals(expected)


@twenty("9.3.4", "LayerNormalization", "norm_values")
def norm_epsilon(student, reference, probes):
    """epsilon inside the root"""
    x = probes.normal(2, 5, 4) * np.float32(0.125)
    expect(student.LayerNormalization(4, 0.1)(x)).equals(reference.LayerNormalization(4, 0.1)(x))


@twenty("9.3.5", "LayerNormalization", "norm_values")
def norm_constant(student, probes):
    """equal features become beta"""
    parameters = probes.parameters(gamma=(4,), beta=(4,))
    x = np.ones((2, 3, 4), np.float32)
    expect(student.LayerNormalization(4).load(parameters)(x)).equals(np.broadcast_to(parameters["beta"], (2, 3, 4)))
