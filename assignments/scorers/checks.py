"""The checks of Lab 4. Order, names and numbers are what students see; points per section stand in lab.toml."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from gradescope_utils.autograder_utils.decorators import number, tags, visibility, weight

from autograder import laws, rules
from autograder import questions as concept
from autograder.check import Mismatch, check, expect, kind, pair
from autograder.composition import (
    depends_on_inputs,
    equals_reference_or_own_parts,
    needs,
    unless_earlier_part,
    value_or_review,
)
from autograder.language import say
from autograder.sandbox.proxy import NoAnswer

OUTPUT = "sequence reader feature"
SCORES = "sequence reader source"
FROM_QUERY_AND_KEY = {0: "query", 1: "key"}
MOVES = 1e-3  # a weight that changes by this much has changed; rounding changes none by a tenth of it
ROUNDING = 1e-4
# Scores may lie anywhere. Where they lie low, a mask that only subtracts a little, or puts a small number there, shows.
LOW, VERY_LOW = np.float32(6), np.float32(4096)
COLUMNS = ("scorer", "row_sum_error", "query_effect", "entropy")
NOT_ALLOWED = ("scaled_dot_product_attention", "MultiheadAttention", "multi_head_attention_forward")


def softmax(scores):
    """Softmax over the sources, in float64."""
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def largest_change(before, after):
    """The largest change of any weight (or score)."""
    return float(np.abs(after.astype(np.float64) - before).max())


def entropy(weights):
    """Mean over the readers, in nats; a weight of 0 adds 0."""
    wide = weights.astype(np.float64)
    logs = np.log(np.where(wide > 0, wide, 1.0))
    return float(-(wide * logs).sum(axis=-1).mean())


def scores_of(scorer, query, key):
    """What a scorer says, as finite scores (N, Kq, K)."""
    shape = (query.shape[0], query.shape[1], key.shape[1])
    return expect(scorer(query, key), "the output", SCORES).has_shape(*shape).is_finite().value


def same_scores(scorer, right, query, key):
    """The scorer gives what the right one gives."""
    expected = right(query, key)
    expect(scorer(query, key), "the output", SCORES).equals(expected)


def listens(scorer, query, other, key):
    """Exchanging the query changes a weight; asked the same again, the scorer reads the same."""
    before = softmax(scores_of(scorer, query, key))
    change = largest_change(before, softmax(scores_of(scorer, other, key)))
    if not change >= MOVES:
        raise Mismatch(
            say(
                "No weight changed by more than {change} after the query was exchanged: it has no effect.",
                change=f"{change:.2g}",
            )
        )
    expect(softmax(scores_of(scorer, query, key)), "the weights when asked the same again", SCORES).equals(before)


# 4.1 ------------------------------------------------------------------------------------------------------------------


@number("4.1.1")
@weight(3)
@check(target="dot_product_scores", read="#every-query-with-every-key")
def dot_values(student, reference, probes):
    """the dot product of every query with every key"""
    query, key = probes.normal(2, 6, 3), probes.normal(2, 6, 3)
    same_scores(student.dot_product_scores, reference.dot_product_scores, query, key)


@number("4.1.2")
@weight(1)
@check(target="dot_product_scores", after="dot_values", read="#every-query-with-every-key")
def dot_cross(student, reference, probes):
    """fewer readers than sources, and more"""
    for kq, k in ((5, 7), (7, 3)):
        query, key = probes.normal(2, kq, 4), probes.normal(2, k, 4)
        same_scores(student.dot_product_scores, reference.dot_product_scores, query, key)


@number("4.1.3")
@weight(2)
@check(target="dot_product_scores", read="#does-the-query-matter")
def dot_listens(student, probes):
    """another query, another reading"""
    query, other, key = probes.normal(2, 6, 4), probes.normal(2, 6, 4), probes.normal(2, 6, 4)
    listens(student.dot_product_scores, query, other, key)


@number("4.1.4")
@weight(1)
@visibility("hidden")
@check(target="dot_product_scores", after="dot_values", read="#conventions")
def dot_in_float64(student, reference, probes):
    """float64 in, float64 out, and as exact"""
    query, key = (array.astype(np.float64) for array in (probes.normal(2, 6, 4), probes.normal(2, 6, 4)))
    expected = reference.dot_product_scores(query, key)
    expect(student.dot_product_scores(query, key), "the output", SCORES).has_dtype("float64").equals(expected)


@number("4.1.5")
@weight(1)
@visibility("hidden")
@check(target="dot_product_scores", after="dot_values", read="#conventions")
def dot_small(student, reference, probes):
    """one sequence, one position, one feature"""
    for n, k, d in ((1, 6, 4), (2, 1, 4), (2, 6, 1)):
        query, key = probes.normal(n, k, d), probes.normal(n, k, d)
        same_scores(student.dot_product_scores, reference.dot_product_scores, query, key)


@number("4.1.6")
@weight(1)
@visibility("hidden")
@check(target="dot_product_scores", after="dot_values", read="#conventions")
def dot_gradients(student, reference, probes):
    """gradients reach query and key"""
    probe, cotangent = (probes.normal(2, 6, 4), probes.normal(2, 6, 4)), probes.normal(2, 6, 6)
    expected = reference.dot_product_scores.gradients(*probe, wrt=(0, 1), cotangent=cotangent)
    found = student.dot_product_scores.gradients(*probe, wrt=(0, 1), cotangent=cotangent)
    laws.gradients_agree(found, expected, FROM_QUERY_AND_KEY)


# 4.2 ------------------------------------------------------------------------------------------------------------------


def scaled_scores(student, reference, query, key, alive=lambda: None):
    """The scaled scores, against the reference or against the student's own dot products, scaled.

    `alive` raises Mismatch where these are constant; the first check asks, and the others stand after it.
    """
    expected = reference.scaled_dot_product_scores(query, key)
    got = student.scaled_dot_product_scores(query, key)

    def own_parts():
        own = student.dot_product_scores(query, key)
        return own / query.shape[-1] ** 0.5 if isinstance(own, np.ndarray) else None

    equals_reference_or_own_parts(got, expected, own_parts, alive, "the output", SCORES)
    return got


def takes(student, query, key):
    """The scaled scores take this input, unless the student's own dot products do not: that costs its point there."""
    scaled, below = student.scaled_dot_product_scores, student.dot_product_scores
    value_or_review(lambda: scaled(query, key), lambda: below(query, key), "dot_product_scores")


@number("4.2.1")
@weight(3)
@check(target="scaled_dot_product_scores", read="#scaled-by-the-width-of-a-key")
def scaled_values(student, reference, probes):
    """the dot products, divided by √D"""
    query, key, other_query, other_key = (probes.normal(2, 6, 4) for _ in range(4))

    def alive():
        def moved(by):
            return student.scaled_dot_product_scores(query + by * other_query, key + by * other_key)

        depends_on_inputs(moved, (np.zeros(1, dtype=np.float32),), ("the input",))

    scaled_scores(student, reference, query, key, alive)


@number("4.2.2")
@weight(1)
@check(target="scaled_dot_product_scores", after="scaled_values", read="#scaled-by-the-width-of-a-key")
def scaled_cross(student, reference, probes):
    """fewer readers than sources, and more"""
    for kq, k in ((5, 7), (7, 3)):
        probe = probes.normal(2, kq, 4), probes.normal(2, k, 4)
        takes(student, *probe)
        scaled_scores(student, reference, *probe)


@number("4.2.3")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_scores", after="scaled_values", read="#scaled-by-the-width-of-a-key")
def scaled_widths(student, reference, probes):
    """narrower and wider keys"""
    for d in (2, 17):
        scaled_scores(student, reference, probes.normal(2, 6, d), probes.normal(2, 6, d))


@number("4.2.4")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_scores", after="scaled_values", read="#conventions")
def scaled_in_float64(student, reference, probes):
    """float64 in, float64 out, and as exact"""
    query, key = (array.astype(np.float64) for array in (probes.normal(2, 6, 3), probes.normal(2, 6, 3)))
    scores = scaled_scores(student, reference, query, key)

    def is_wide(scores):
        expect(scores, "the output", SCORES).has_dtype("float64")

    unless_earlier_part(lambda: is_wide(scores), lambda: is_wide(student.dot_product_scores(query, key)), "float64")


@number("4.2.5")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_scores", after="scaled_values", read="#conventions")
def scaled_small(student, reference, probes):
    """one sequence, one position, one feature"""
    for n, k, d in ((1, 6, 4), (2, 1, 4), (2, 6, 1)):
        probe = probes.normal(n, k, d), probes.normal(n, k, d)
        takes(student, *probe)
        scaled_scores(student, reference, *probe)


@number("4.2.6")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_scores", after="scaled_values", read="#conventions")
def scaled_gradients(student, probes):
    """gradients reach query and key"""
    probe, cotangent = (probes.normal(2, 6, 4), probes.normal(2, 6, 4)), probes.normal(2, 6, 6)

    def learns(scorer):
        laws.gradients_reach(scorer.gradients(*probe, wrt=(0, 1), cotangent=cotangent), FROM_QUERY_AND_KEY)

    scaled, below = student.scaled_dot_product_scores, student.dot_product_scores
    unless_earlier_part(lambda: learns(scaled), lambda: learns(below), "the gradients of the scaled scores")


# 4.3 ------------------------------------------------------------------------------------------------------------------


def additive_parameters(probes, dim_q=3, dim_k=4, dim_hidden=5):
    """Distinct parameters of an additive scorer, by name."""
    shapes = {"W_q__weight": (dim_hidden, dim_q), "W_k__weight": (dim_hidden, dim_k)}
    return probes.parameters(**shapes, b=(dim_hidden,), v_a=(dim_hidden,))


def additive_scorers(student, reference, probes, sizes=(3, 4, 5)):
    """The student's additive scorer and the reference's, with the same parameters."""
    parameters = additive_parameters(probes, *sizes)
    return [guest.AdditiveScorer(*sizes).load(parameters) for guest in (student, reference)]


@number("4.3.1")
@weight(8)
@check(target="AdditiveScorer", read="#the-order-inside-the-scorer")
def additive_values(student, reference, probes):
    """add, then tanh, then weigh with v_a"""
    scorer, right = additive_scorers(student, reference, probes)
    same_scores(scorer, right, probes.normal(2, 6, 3), probes.normal(2, 6, 4))


@number("4.3.2")
@weight(2)
@check(target="AdditiveScorer", after="additive_values", read="#a-small-network-for-each-pair")
def additive_cross(student, reference, probes):
    """fewer readers than sources, and more"""
    scorer, right = additive_scorers(student, reference, probes)
    for kq, k in ((6, 7), (7, 2)):
        same_scores(scorer, right, probes.normal(2, kq, 3), probes.normal(2, k, 4))


@number("4.3.3")
@weight(6)
@check(target="AdditiveScorer", read="#the-order-inside-the-scorer")
def additive_listens(student, probes):
    """another query, another reading: the scorer listens"""
    scorer = student.AdditiveScorer(3, 4, 5).load(additive_parameters(probes))
    query, other, key = probes.normal(2, 6, 3), probes.normal(2, 6, 3), probes.normal(2, 6, 4)
    listens(scorer, query, other, key)


@number("4.3.4")
@weight(1)
@check(target="AdditiveScorer", after="additive_values", read="#how-it-is-graded")
def additive_starts_audible(student):
    """v_a does not start with all 0"""
    starts_other_than_zero(student.AdditiveScorer(3, 4, 5), v_a=(5,))


@number("4.3.5")
@weight(1)
@visibility("hidden")
@check(target="AdditiveScorer", after="additive_values", read="#conventions")
def additive_in_float64(student, reference, probes):
    """float64 parameters and inputs give float64, and as exact"""
    scorer, right = additive_scorers(student, reference, probes)
    in_float64(scorer, right, probes.normal(2, 6, 3), probes.normal(2, 6, 4), additive_parameters(probes))


@number("4.3.6")
@weight(2)
@visibility("hidden")
@check(target="AdditiveScorer", after="additive_values", read="#conventions")
def additive_small(student, reference, probes):
    """one sequence, one reader, one source, one feature, one hidden unit"""
    scorer, right = additive_scorers(student, reference, probes)
    for n, kq, k in ((1, 6, 7), (2, 1, 7), (2, 6, 1)):
        same_scores(scorer, right, probes.normal(n, kq, 3), probes.normal(n, k, 4))
    for sizes in ((1, 4, 5), (3, 1, 5), (3, 4, 1)):
        scorer, right = additive_scorers(student, reference, probes, sizes)
        same_scores(scorer, right, probes.normal(2, 6, sizes[0]), probes.normal(2, 7, sizes[1]))


@number("4.3.7")
@weight(3)
@visibility("hidden")
@check(target="AdditiveScorer", after="additive_values", read="#conventions")
def additive_learns(student, reference, probes):
    """gradients reach query, key and every parameter"""
    names = FROM_QUERY_AND_KEY | {name: name for name in ("W_q.weight", "W_k.weight", "b", "v_a")}
    probe, cotangent = (probes.normal(2, 6, 3), probes.normal(2, 6, 4)), probes.normal(2, 6, 6)
    scorer, right = additive_scorers(student, reference, probes)
    expected = right.gradients(*probe, wrt=list(names), cotangent=cotangent)
    laws.gradients_agree(scorer.gradients(*probe, wrt=list(names), cotangent=cotangent), expected, names)


# 4.4 ------------------------------------------------------------------------------------------------------------------


def linear_scorers(student, reference, probes, sizes=(3, 4)):
    """The student's linear scorer and the reference's, with the same distinct parameters."""
    parameters = probes.parameters(a=sizes[:1], b=sizes[1:])
    return [guest.LinearConcatScorer(*sizes).load(parameters) for guest in (student, reference)]


@number("4.4.1")
@weight(5)
@check(target="LinearConcatScorer", read="#a-scorer-that-does-not-listen")
def linear_values(student, reference, probes):
    """one number per query plus one per key"""
    scorer, right = linear_scorers(student, reference, probes)
    same_scores(scorer, right, probes.normal(2, 6, 3), probes.normal(2, 6, 4))


@number("4.4.2")
@weight(1)
@check(target="LinearConcatScorer", after="linear_values", read="#a-scorer-that-does-not-listen")
def linear_cross(student, reference, probes):
    """fewer readers than sources, and more"""
    scorer, right = linear_scorers(student, reference, probes)
    for kq, k in ((5, 7), (7, 2)):
        same_scores(scorer, right, probes.normal(2, kq, 3), probes.normal(2, k, 4))


@number("4.4.3")
@weight(4)
@check(target="LinearConcatScorer", read="#a-constant-for-a-whole-row")
def linear_does_not_listen(student, probes):
    """another query moves the scores and no weight, whatever the key"""
    scorer = student.LinearConcatScorer(3, 4).load(probes.parameters(a=(3,), b=(4,)))
    query, other = probes.normal(2, 6, 3), probes.normal(2, 6, 3)
    for scale in (0.25, 1.0, 8.0):
        key = probes.normal(2, 6, 4, scale=scale)
        before, after = scores_of(scorer, query, key), scores_of(scorer, other, key)
        expect(largest_change(before, after), "the largest change of a score, with another query,").at_least(MOVES)
        expect(float(softmax(before).std(axis=-1).max()), "the spread of a reader's weights").at_least(MOVES)
        change, largest = largest_change(softmax(before), softmax(after)), float(np.abs(before).max())
        # What rounding does to a score grows with the score, and a weight moves with it.
        expect(change, "the largest change of a weight, with another query,").at_most(ROUNDING * max(1.0, largest))


@number("4.4.4")
@weight(1)
@check(target="LinearConcatScorer", after="linear_values", read="#how-it-is-graded")
def linear_starts_audible(student):
    """neither a nor b starts with all 0"""
    starts_other_than_zero(student.LinearConcatScorer(3, 4), a=(3,), b=(4,))


@number("4.4.5")
@weight(1)
@visibility("hidden")
@check(target="LinearConcatScorer", after="linear_values", read="#conventions")
def linear_in_float64(student, reference, probes):
    """float64 parameters and inputs give float64, and as exact"""
    scorer, right = linear_scorers(student, reference, probes)
    in_float64(scorer, right, probes.normal(2, 6, 3), probes.normal(2, 6, 4), probes.parameters(a=(3,), b=(4,)))


@number("4.4.6")
@weight(1)
@visibility("hidden")
@check(target="LinearConcatScorer", after="linear_values", read="#conventions")
def linear_small(student, reference, probes):
    """one sequence, one reader, one source, one feature"""
    scorer, right = linear_scorers(student, reference, probes)
    for n, kq, k in ((1, 6, 7), (2, 1, 7), (2, 6, 1)):
        same_scores(scorer, right, probes.normal(n, kq, 3), probes.normal(n, k, 4))
    for sizes in ((1, 4), (3, 1)):
        scorer, right = linear_scorers(student, reference, probes, sizes)
        same_scores(scorer, right, probes.normal(2, 6, sizes[0]), probes.normal(2, 7, sizes[1]))


@number("4.4.7")
@weight(1)
@visibility("hidden")
@check(target="LinearConcatScorer", after="linear_values", read="#conventions")
def linear_learns(student, reference, probes):
    """gradients reach query, key, a and b"""
    names = FROM_QUERY_AND_KEY | {"a": "a", "b": "b"}
    probe, cotangent = (probes.normal(2, 6, 3), probes.normal(2, 6, 4)), probes.normal(2, 6, 6)
    scorer, right = linear_scorers(student, reference, probes)
    expected = right.gradients(*probe, wrt=list(names), cotangent=cotangent)
    laws.gradients_agree(scorer.gradients(*probe, wrt=list(names), cotangent=cotangent), expected, names)


def starts_other_than_zero(scorer, **shapes):
    """Each named parameter of a new scorer has its shape and a value other than 0."""
    parameters = scorer.parameters()
    for name, shape in shapes.items():
        start = expect(parameters[name], say("the start of `{name}`", name=name)).has_shape(*shape).is_finite().value
        if not start.any():
            raise Mismatch(say("`{name}` starts with all 0: every score is then without it.", name=name))


def in_float64(scorer, right, query, key, parameters):
    """With parameters and inputs in float64 the scores are float64, and as exact."""
    wide = {name: array.astype(np.float64) for name, array in parameters.items()}
    probe = [array.astype(np.float64) / 3 for array in (query, key)]  # thirds: float32 cannot hold them
    expected = right.load(wide)(*probe)
    expect(scorer.load(wide)(*probe), "the output", SCORES).has_dtype("float64").equals(expected)


# 4.5 ------------------------------------------------------------------------------------------------------------------


def reading(probes, n=2, kq=5, k=7, dv=3):
    """Scores (N, Kq, K) and values (N, K, Dv)."""
    return probes.normal(n, kq, k, scale=2.0), probes.normal(n, k, dv)


def output_and_weights(value):
    """What `read` returns, taken apart."""
    return pair(value, ("y", "weights"))


def same_reading(student, reference, *probe):
    """`y` is the reference's."""
    expected, _ = reference.read(*probe)
    y, _ = output_and_weights(student.read(*probe))
    expect(y, "y", OUTPUT).equals(expected)


@number("4.5.1")
@weight(4)
@check(target="read", read="#the-interface-that-stays")
def read_output(student, reference, probes):
    """softmax over the sources, then a weighted sum of the values"""
    same_reading(student, reference, *reading(probes, kq=6, k=6))


@number("4.5.2")
@weight(1.5)
@check(target="read", after="read_output", read="#the-interface-that-stays")
def read_weights(student, reference, probes):
    """the weights that it returns are those it read with"""
    probe = reading(probes)
    _, expected = reference.read(*probe)
    _, weights = output_and_weights(student.read(*probe))
    expect(weights, "weights", SCORES).equals(expected)


@number("4.5.3")
@weight(1)
@check(target="read", after="read_output", read="#the-interface-that-stays")
def read_cross(student, reference, probes):
    """fewer readers than sources, and more"""
    for kq, k in ((5, 7), (7, 2)):
        same_reading(student, reference, *reading(probes, kq=kq, k=k))


@number("4.5.4")
@weight(2)
@check(target="read", after="read_output", read="#the-interface-that-stays")
def read_mask(student, reference, probes):
    """with a mask"""
    scores, value = reading(probes)
    same_reading(student, reference, scores - LOW, value, probes.mask())


@number("4.5.5")
@weight(1)
@check(target="read", after="read_mask", read="#conventions")
def read_leaves_its_inputs(student, probes):
    """scores, values and mask are not changed"""
    given = [*reading(probes), probes.mask()]
    _, afterwards = student.read.call_keeping_inputs(*given)
    laws.inputs_stay("scores value mask", given, afterwards)


@number("4.5.6")
@weight(1)
@check(target="read", after="read_output", read="#rules")
def read_is_not_ready_made(student, probes, source):
    """the ready-made attention of torch is not used"""
    rules.not_ready_made(source, "read", NOT_ALLOWED, "attention", student.read.operations(*reading(probes)))


@number("4.5.7")
@weight(1)
@visibility("hidden")
@check(target="read", after="read_mask", read="#the-interface-that-stays")
def read_mask_broadcasts(student, reference, probes):
    """a mask that only broadcasts to the scores: (1, 1, K), (N, 1, K), (Kq, K)"""
    probe, mask = reading(probes), probes.mask()
    for smaller in (mask[:1, :1], mask[:, :1], mask[0]):
        same_reading(student, reference, *probe, smaller)


@number("4.5.8")
@weight(1)
@visibility("hidden")
@check(target="read", after="read_mask", read="#the-interface-that-stays")
def masked_source_is_not_read(student, probes):
    """a source that the mask hides has no influence, however large its score and its value are"""
    (scores, value), mask = reading(probes), probes.mask()
    scores -= VERY_LOW
    mask[:, :, 4], mask[:, :, 1] = True, False

    def read(by_source, value):
        return output_and_weights(student.read(by_source.transpose(0, 2, 1), value, mask))[0]

    def judge():
        laws.masked_source_has_no_influence(read, (scores.transpose(0, 2, 1), value), source=4, by=VERY_LOW)

    def without_mask():
        y, _ = output_and_weights(student.read(scores, value))
        expect(y, "y", OUTPUT).is_finite()

    unless_earlier_part(judge, without_mask, "low scores")  # a softmax that overflows costs its point in 4.5.9


@number("4.5.9")
@weight(1)
@visibility("hidden")
@check(target="read", after="read_output", read="#the-interface-that-stays")
def large_scores(student, reference, probes):
    """scores of ±10,000 do not overflow"""
    scores, value = reading(probes)
    same_reading(student, reference, scores * np.float32(8192), value)


@number("4.5.10")
@weight(1)
@visibility("hidden")
@check(target="read", after=("read_mask", "read_weights", "large_scores"), read="#the-interface-that-stays")
def fully_masked_reader(student, probes):
    """a reader that may read nothing still gets finite weights that sum to 1"""
    mask = probes.mask()
    mask[1, 2] = True
    y, weights = output_and_weights(student.read(*reading(probes), mask))
    expect(y, "y", OUTPUT).is_finite()
    laws.rows_sum_to_one(weights)


@number("4.5.11")
@weight(1)
@visibility("hidden")
@check(target="read", after="read_output", read="#conventions")
def read_in_float64(student, reference, probes):
    """float64 in, float64 out, and as exact"""
    probe = [array.astype(np.float64) / 3 for array in reading(probes)]  # thirds: float32 cannot hold them
    expected, _ = reference.read(*probe)
    y, weights = output_and_weights(student.read(*probe))
    expect(y, "y", OUTPUT).has_dtype("float64").equals(expected)
    expect(weights, "weights", SCORES).has_dtype("float64")


@number("4.5.12")
@weight(1)
@visibility("hidden")
@check(target="read", after="read_output", read="#conventions")
def read_small(student, reference, probes):
    """one sequence, one reader, one source, one feature"""
    for n, kq, k, dv in ((1, 5, 7, 3), (2, 1, 7, 3), (2, 5, 1, 3), (2, 5, 7, 1)):
        same_reading(student, reference, *reading(probes, n, kq, k, dv))


@number("4.5.13")
@weight(1)
@visibility("hidden")
@check(target="read", after="read_output", read="#conventions")
def read_gradients(student, reference, probes):
    """gradients reach scores and values"""
    same_gradients(student, reference, reading(probes), {0: "scores", 1: "value"}, probes.normal(2, 5, 3), 0)


@number("4.5.14")
@weight(1)
@visibility("hidden")
@check(target="read", after="read_mask", read="#conventions")
def read_mask_keeps_to_the_conventions(student, reference, probes):
    """with a mask, too, float64 is as exact and gradients reach scores and values"""
    probe, mask = reading(probes), probes.mask()
    wide = [array.astype(np.float64) / 3 for array in probe]
    expected, _ = reference.read(*wide, mask)
    y, _ = output_and_weights(student.read(*wide, mask))
    expect(y, "y", OUTPUT).has_dtype("float64").equals(expected)
    same_gradients(student, reference, (*probe, mask), {0: "scores", 1: "value"}, probes.normal(2, 5, 3), 0)


@number("4.5.15")
@weight(0.5)
@visibility("hidden")
@check(target="read", after="read_weights", read="#conventions")
def read_weights_have_gradients(student, reference, probes):
    """gradients flow from the weights to the scores, too"""
    same_gradients(student, reference, reading(probes), {0: "scores"}, probes.normal(2, 5, 7), 1)


def same_gradients(student, reference, probe, names, cotangent, output):
    """The gradients of `read` with respect to those inputs that are named are those of the reference."""
    expected, found = (
        guest.read.gradients(*probe, wrt=list(names), cotangent=cotangent, output=output)
        for guest in (reference, student)
    )
    laws.gradients_agree(found, expected, names)


# 4.6 ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """A scorer of the student's own, what it was asked, and the scores that it gave."""

    scorer: Any
    query: Any
    other: Any
    key: Any
    before: Any
    after: Any

    @property
    def effect(self):
        """How much its weights change with the other query."""
        return largest_change(softmax(self.before), softmax(self.after))


def try_out(make: Callable[[], Any], query, other, key):
    """A trial of the scorer that `make` gives, or None where it gives no scores. Whether they are right does not matter."""
    try:
        scorer = make()
        return Trial(scorer, query, other, key, scores_of(scorer, query, key), scores_of(scorer, other, key))
    except (NoAnswer, Mismatch):
        return None


def listeners(student, probes, one_reader_only=False):
    """Trials of those of the student's own scorers that listen: what an instrument can be tried on."""
    parameters = additive_parameters(probes)
    trials = []
    # First the one whose query and key have different widths: it tells an exchange of the two, and the other does not.
    for make, dim_q in (
        (lambda: student.AdditiveScorer(3, 4, 5).load(parameters), 3),
        (lambda: student.dot_product_scores, 4),
    ):
        query, other, key = probes.normal(2, 5, dim_q), probes.normal(2, 5, dim_q), probes.normal(2, 7, 4)
        if one_reader_only:
            other = np.concatenate([query.reshape(10, dim_q)[:9], other[1, 4:]]).reshape(2, 5, dim_q)
        trials.append(try_out(make, query, other, key))
    return working([trial for trial in trials if trial and trial.effect >= MOVES])


def turned_round(trial):
    """The trial with the queries exchanged and the sequences in reverse, or None.

    Where a weight rises most it now falls most, and it does so in another sequence: an instrument that sees only one way, or
    only the first sequence, cannot be right on both by luck.
    """
    query, other, key = (array[::-1].copy() for array in (trial.other, trial.query, trial.key))
    return try_out(lambda: trial.scorer, query, other, key)


def working(trials):
    """The trials, if there are any: an instrument cannot be judged on nothing."""
    if not trials:
        raise NoAnswer("missing", say("this needs a scorer of yours that listens to the query, and none does yet"))
    return trials


def own_weights(student, scores):
    """What the student's own `read` makes of scores; None where these are no weights."""
    value = student.read(scores, np.ones((scores.shape[0], scores.shape[2], 1), dtype=scores.dtype))
    weights = value[1] if isinstance(value, tuple) and len(value) == 2 else None
    return weights if isinstance(weights, np.ndarray) and weights.shape == scores.shape else None


def own_change(student, before, after):
    """The largest change of any weight, where the student's own `read` makes the weights; None where it makes none."""
    pair_of_weights = [own_weights(student, scores) for scores in (before, after)]
    return None if any(weights is None for weights in pair_of_weights) else largest_change(*pair_of_weights)


def measures(value, expected, own, name, least=MOVES):
    """A number is as expected, or what the student's own parts give: `own()`, a number of at least `least`, or None."""
    found = expect(value, name).is_number().value
    if abs(found - expected) <= ROUNDING:
        return
    try:
        mine = own()
    except NoAnswer:  # the earlier part is missing or broken: then only the expected value can be compared with
        mine = None
    # Parts that are constant give 0 for most things; that an instrument gives 0, too, is then no merit of it.
    fits = isinstance(mine, (int, float)) and abs(mine) >= least and abs(found - mine) <= ROUNDING * max(1, abs(mine))
    if not fits:
        expect(found, name).is_near(expected, ROUNDING)


def effect_of(student, trial):
    """`query_effect` of a trial, judged on the scores that the scorer gave."""
    value = student.query_effect(trial.scorer, trial.query, trial.other, trial.key)
    measures(value, trial.effect, lambda: own_change(student, trial.before, trial.after), "query_effect")
    return value


@number("4.6.1")
@weight(4)
@check(target="query_effect", read="#does-the-query-matter")
def effect_values(student, probes):
    """how much the weights of a scorer that listens change"""
    for trial in listeners(student, probes):
        for tried in (trial, turned_round(trial)):
            if tried:
                effect_of(student, tried)


@number("4.6.2")
@weight(2)
@check(target="query_effect", after="effect_values", read="#does-the-query-matter")
def effect_of_the_linear_scorer(student, probes):
    """0 for the linear scorer, whatever the key"""
    parameters = probes.parameters(a=(3,), b=(4,))
    needs("LinearConcatScorer", lambda: student.LinearConcatScorer(3, 4).load(parameters))
    scorer = student.LinearConcatScorer(3, 4).load(parameters)
    query, other = probes.normal(2, 5, 3), probes.normal(2, 5, 3)
    for scale in (0.25, 1.0, 4.0):
        trial = try_out(lambda: scorer, query, other, probes.normal(2, 7, 4, scale=scale))
        effect_of(student, *working([trial] if trial else []))


@number("4.6.3")
@weight(1)
@check(target="query_effect", after="effect_values", read="#conventions")
def effect_is_a_float(student, probes):
    """a plain Python number comes back"""
    is_plain(effect_of(student, listeners(student, probes)[0]), "query_effect")


@number("4.6.4")
@weight(1)
@visibility("hidden")
@check(target="query_effect", after="effect_values", read="#does-the-query-matter")
def effect_of_one_reader(student, probes):
    """one reader of the last sequence asks something else"""
    for trial in listeners(student, probes, one_reader_only=True):
        effect_of(student, trial)


def is_plain(value, name):
    """A Python number, not a tensor."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Mismatch(say("{name} is {kind}, expected a plain Python number.", name=name, kind=kind(value)))


# 4.7 ------------------------------------------------------------------------------------------------------------------


def gap_of(student, scores, c):
    """`shift_gap`, judged on softmax or on the student's own `read`."""
    shifted = scores + np.asarray(c, dtype=np.float32)
    value = student.shift_gap(scores, c)
    expected = largest_change(softmax(scores), softmax(shifted))
    measures(value, expected, lambda: own_change(student, scores, shifted), "shift_gap")
    return value


@number("4.7.1")
@weight(2)
@check(target="shift_gap", read="#a-constant-for-a-whole-row")
def shift_of_every_pair(student, probes):
    """a number of its own for every pair of reader and source: how much the weights change"""
    scores, c = probes.normal(2, 5, 7), probes.normal(2, 5, 7)
    gap_of(student, scores, c)
    # And back, in reverse: the largest rise of a weight is a fall then, and in another sequence.
    gap_of(student, (scores + c)[::-1].copy(), -c[::-1].copy())


@number("4.7.2")
@weight(1)
@check(target="shift_gap", after="shift_of_every_pair", read="#a-constant-for-a-whole-row")
def shift_by_one_number(student, probes):
    """one number for all scores: 0"""
    for c in (2.5, -12.0):
        gap_of(student, probes.normal(2, 5, 7), c)


@number("4.7.3")
@weight(1)
@check(target="shift_gap", after="shift_of_every_pair", read="#a-constant-for-a-whole-row")
def shift_of_every_reader(student, probes):
    """one number per reader: 0"""
    gap_of(student, probes.normal(2, 5, 7), probes.normal(2, 5, 1, scale=4.0))


@number("4.7.4")
@weight(1)
@check(target="shift_gap", after="shift_of_every_pair", read="#conventions")
def shift_is_a_float(student, probes):
    """a plain Python number comes back"""
    is_plain(gap_of(student, probes.normal(2, 5, 7), probes.normal(2, 5, 7)), "shift_gap")


@number("4.7.5")
@weight(1)
@visibility("hidden")
@check(target="shift_gap", after="shift_of_every_pair", read="#conventions")
def shift_leaves_its_inputs(student, probes):
    """scores and c are not changed"""
    given = [probes.normal(2, 5, 7), probes.normal(2, 5, 1)]
    _, afterwards = student.shift_gap.call_keeping_inputs(*given)
    laws.inputs_stay("scores c", given, afterwards)


# 4.8 ------------------------------------------------------------------------------------------------------------------


def contestants(student, probes, key_scale=1.0):
    """Trials of the student's own scorers by name, and what `compare` is given beside them."""
    parameters = additive_parameters(probes, 4, 4, 5), probes.parameters(a=(4,), b=(4,))
    makers = {
        "linear": lambda: student.LinearConcatScorer(4, 4).load(parameters[1]),
        "dot": lambda: student.dot_product_scores,
        "additive": lambda: student.AdditiveScorer(4, 4, 5).load(parameters[0]),
    }
    query, other, key = probes.normal(2, 5, 4), probes.normal(2, 5, 4), probes.normal(2, 7, 4, scale=key_scale)
    found = {name: try_out(make, query, other, key) for name, make in makers.items()}
    trials = {name: trial for name, trial in found.items() if trial}
    working([trial for trial in trials.values() if trial.effect >= MOVES])
    return trials, (query, other, key, probes.normal(2, 7, 6))


def compared(student, probes, key_scale=1.0):
    """Trials of the student's own scorers by name, and what `compare` says of them."""
    trials, given = contestants(student, probes, key_scale)
    try:
        return trials, student.compare({name: trial.scorer for name, trial in trials.items()}, *given)
    except NoAnswer:
        for trial in trials.values():  # an earlier part that does not take this costs its points where it is judged
            needs("`read`", lambda t=trial: own_weights(student, t.before))
            needs("`query_effect`", lambda t=trial: effect_again(student, t))
        raise


def column(trials, table, key):
    """The values of one column of `compare`'s table, by scorer."""
    if not isinstance(table, list) or not all(isinstance(row, dict) for row in table):
        raise Mismatch(say("compare returns {kind}, expected a list of dicts.", kind=kind(table)))
    rows = {row.get("scorer"): row for row in table}
    for name in trials:
        if name not in rows:
            raise Mismatch(say('No row of compare has "scorer": "{name}".', name=name))
        if key not in rows[name]:
            raise Mismatch(say('The row of "{name}" has no key "{key}".', name=name, key=key))
    return [(trial, rows[name][key], say('{key} of "{name}"', key=key, name=name)) for name, trial in trials.items()]


@number("4.8.1")
@weight(2)
@check(target="compare", read="#side-by-side")
def compare_query_effect(student, probes):
    """the query effect of every scorer"""
    for trial, value, name in column(*compared(student, probes), "query_effect"):
        with waiting_for("query_effect", lambda t=trial, v=value: passes_on_a_number(student, t, v)):
            measures(value, trial.effect, lambda t=trial: own_query_effect(student, t), name)


@number("4.8.2")
@weight(1.5)
@check(target="compare", read="#side-by-side")
def compare_entropy(student, probes):
    """the entropy of every scorer, in nats"""
    same_entropy(student, *compared(student, probes))


@number("4.8.3")
@weight(1)
@check(target="compare", after="compare_query_effect", read="#side-by-side")
def compare_row_sum_error(student, probes):
    """how far a reader's weights are from summing to 1"""
    for trial, value, name in column(*compared(student, probes), "row_sum_error"):
        with waiting_for("read", lambda t=trial: reads_no_weights(student, t.before)):
            measures(value, 0.0, lambda t=trial: own_row_sum_error(student, t.before), name)


@number("4.8.4")
@weight(1)
@check(target="compare", after="compare_query_effect", read="#side-by-side")
def compare_rows(student, probes):
    """one row per scorer, in the order given, with plain values under the four keys"""
    trials, table = compared(student, probes)
    for key in COLUMNS[1:]:
        for trial, value, name in column(trials, table, key):
            if key != "query_effect" or not passes_on_a_tensor(student, trial, value):
                is_plain(value, name)
    order = [row["scorer"] for row in table]
    if order != list(trials):
        raise Mismatch(say("The rows are {got}; expected {wanted}.", got=", ".join(order), wanted=", ".join(trials)))


@number("4.8.5")
@weight(1)
@visibility("hidden")
@check(target="compare", after="compare_entropy", read="#side-by-side")
def compare_weights_of_zero(student, probes):
    """weights of exactly 0 add 0 to the entropy"""
    trials, table = compared(student, probes, key_scale=64.0)
    finite = {name: trial for name, trial in trials.items() if reads_finite(student, trial.before)}
    same_entropy(student, finite, table, least=0.0)


@number("4.8.6")
@weight(0.5)
@check(target="compare", after="compare_rows", read="#conventions")
def compare_leaves_its_inputs(student, probes):
    """queries, keys and values are not changed"""
    trials, given = contestants(student, probes)

    def unchanged(names, function, first, *others):
        _, afterwards = function.call_keeping_inputs(first, *others)
        laws.inputs_stay(names, others, afterwards[1:])

    def earlier_parts():
        for trial in trials.values():
            unchanged("query other_query key", student.query_effect, trial.scorer, *given[:3])
            unchanged("value", student.read, trial.before, given[3])

    scorers = {name: trial.scorer for name, trial in trials.items()}
    unless_earlier_part(
        lambda: unchanged("query other_query key value", student.compare, scorers, *given),
        earlier_parts,
        "the inputs of compare",
    )


def same_entropy(student, trials, table, least=MOVES):
    """The entropies in the table are those of the scores that the scorers gave."""
    for trial, value, name in column(trials, table, "entropy"):
        expected = entropy(softmax(trial.before))
        with waiting_for("read", lambda t=trial: reads_no_weights(student, t.before)):
            measures(value, expected, lambda t=trial: own_entropy(student, t.before), name, least)


@contextmanager
def waiting_for(part, is_at_fault):
    """What is found inside is not the student's finding where an earlier part is at fault: then the check is blocked by it."""
    try:
        yield
    except Mismatch as finding:
        try:
            blocked = is_at_fault()
        except NoAnswer:  # nothing was built on that part, then
            blocked = False
        if blocked:
            why = say("this is built on your `{part}`, and cannot be judged before that is right", part=part)
            raise NoAnswer("missing", why) from finding
        raise


def effect_again(student, trial):
    """What the student's own `query_effect` says of a trial."""
    return student.query_effect(trial.scorer, trial.query, trial.other, trial.key)


def passes_on_a_number(student, trial, value):
    """Whether a value is just what the student's own `query_effect` says."""
    own = effect_again(student, trial)
    return isinstance(own, float) and isinstance(value, float) and own == value


def passes_on_a_tensor(student, trial, value):
    """Whether a value is a tensor because the student's own `query_effect` gives one: that costs its point in 4.6.3."""
    return isinstance(value, np.ndarray) and isinstance(effect_again(student, trial), np.ndarray)


def own_query_effect(student, trial):
    """The same; None where it says that also when nothing is exchanged."""
    effect = effect_again(student, trial)
    nothing = student.query_effect(trial.scorer, trial.query, trial.query, trial.key)
    return effect if isinstance(effect, float) and effect != nothing else None


def reads_no_weights(student, scores):
    """Whether what the student's own `read` makes of scores cannot be weights: another shape, or not from 0 upwards."""
    weights = own_weights(student, scores)
    return weights is None or not bool((weights >= 0).all())


def reads_finite(student, scores):
    """Whether the student's own `read` copes with scores. That it does not is a mistake of `read`, and costs there."""
    try:
        weights = own_weights(student, scores)
    except NoAnswer:
        return True
    return weights is None or bool(np.isfinite(weights).all())


def own_entropy(student, scores):
    """The entropy of what the student's own `read` makes of scores."""
    weights = own_weights(student, scores)
    return None if weights is None else entropy(weights)


def own_row_sum_error(student, scores):
    """The largest distance of a row sum from 1, of what the student's own `read` makes of scores."""
    weights = own_weights(student, scores)
    return None if weights is None else float(np.abs(weights.astype(np.float64).sum(axis=-1) - 1).max())


# 4.9 ------------------------------------------------------------------------------------------------------------------


@number("4.9.1")
@weight(2)
@tags("question")
@check(target="ANSWERS", local=False, read="#linear-scorer")
def answer_linear_scorer(student, reference, questions):
    """why the linear scorer loses the query"""
    concept.judge(questions, "linear-scorer", student, reference)


@number("4.9.2")
@weight(2)
@tags("question")
@check(target="ANSWERS", local=False, read="#dot-product-linear")
def answer_dot_product_linear(student, reference, questions):
    """whether dot-product attention is linear all the way"""
    concept.judge(questions, "dot-product-linear", student, reference)


@number("4.9.3")
@weight(2)
@tags("question")
@check(target="ANSWERS", local=False, read="#scales")
def answer_scales(student, reference, questions):
    """what two scorers' different scales tell"""
    concept.judge(questions, "scales", student, reference)
