"""The checks of Lab 1. Order, names and numbers are what students see; points per section stand in lab.toml."""

import numpy as np
from gradescope_utils.autograder_utils.decorators import number, tags, visibility, weight

from autograder import laws, rules
from autograder import questions as concept
from autograder.check import check, expect, pair
from autograder.composition import depends_on_parameters, equals_reference_or_own_parts, unless_earlier_part
from autograder.language import say

OUTPUT = "sequence reader feature"
WEIGHTS = "sequence reader source"
TOKENS = ("the", "animal", "slept", "all", "day")  # the five positions of 1.6, so that its tables can be read
PROJECTIONS = {
    "q__weight": (3, 4),
    "q__bias": (3,),
    "k__weight": (3, 4),
    "k__bias": (3,),
    "v__weight": (6, 4),
    "v__bias": (6,),
}
NOT_ALLOWED = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention_for_cpu",
    "MultiheadAttention",
    "multi_head_attention_forward",
    "_native_multi_head_attention",
    "TransformerEncoderLayer",
)


def one_sequence(probe):
    """A probe without its batch axis: (K, M), (K, M), (K, Dv)."""
    return tuple(array[0] for array in probe)


def output_and_weights(value):
    """What the no-loop version returns, taken apart."""
    return pair(value, ("y", "weights_softmax"))


# 1.1 ------------------------------------------------------------------------------------------------------------------


@number("1.1.1")
@weight(2)
@check(target="weighted_read", read="#weighted-read")
def worked_example(student):
    """the example of the handout comes out as [.20, 1.75]"""
    weights = np.array([0.05, 0.80, 0.15], dtype=np.float32)
    values = np.array([[1, 0], [0, 2], [1, 1]], dtype=np.float32)
    expect(student.weighted_read(weights, values), axes="feature").equals([0.20, 1.75])


@number("1.1.2")
@weight(2)
@check(target="weighted_read", read="#weighted-read")
def weighted_read_values(student, reference, probes):
    """other weights, other values"""
    weights, values = probes.uniform(7, low=0, high=1), probes.normal(7, 4)
    expected = reference.weighted_read(weights, values)
    expect(student.weighted_read(weights, values), axes="feature").equals(expected)


@number("1.1.3")
@weight(1)
@visibility("hidden")
@check(target="weighted_read", after="weighted_read_values", read="#weighted-read")
def weighted_read_one_source(student, reference, probes):
    """a single source, and a single feature"""
    for sources, features in ((1, 5), (4, 1)):
        weights, values = probes.uniform(sources), probes.normal(sources, features)
        expected = reference.weighted_read(weights, values)
        expect(student.weighted_read(weights, values), axes="feature").equals(expected)


@number("1.1.4")
@weight(1)
@visibility("hidden")
@check(target="weighted_read", after="weighted_read_values", read="#dtype")
def weighted_read_keeps_to_the_conventions(student, reference, probes):
    """float64 in, float64 out; gradients flow; weights and values stay as they are"""
    probe, names = (probes.uniform(7, low=0, high=1), probes.normal(7, 4)), "weights values"
    in_float64(student, reference, "weighted_read", probe, "feature", names)
    same_gradients(student, reference, "weighted_read", probe, probes.normal(4), None, names)


# 1.2 ------------------------------------------------------------------------------------------------------------------


@number("1.2.1")
@weight(6)
@check(target="scaled_dot_product_two_loop_single", read="#two-loops-one-sequence")
def single_values(student, reference, probes):
    """attention within one sequence"""
    probe = one_sequence(probes.self_attention())
    expected = reference.scaled_dot_product_two_loop_single(*probe)
    expect(student.scaled_dot_product_two_loop_single(*probe), axes="reader feature").equals(expected)


@number("1.2.2")
@weight(3)
@check(target="scaled_dot_product_two_loop_single", after="single_values", read="#rules")
def single_is_written_with_loops(student, probes, source):
    """it is written with loops over positions, two at most"""
    rules.loops_over_two_axes(
        source,
        "scaled_dot_product_two_loop_single",
        lambda k: student.scaled_dot_product_two_loop_single.operations(*one_sequence(probes.self_attention(k=k))),
    )


@number("1.2.3")
@weight(2)
@visibility("hidden")
@check(target="scaled_dot_product_two_loop_single", after="single_values", read="#two-loops-one-sequence")
def single_small(student, reference, probes):
    """one position, one feature"""
    for k, m in ((1, 4), (5, 1)):
        probe = one_sequence(probes.self_attention(k=k, m=m))
        expected = reference.scaled_dot_product_two_loop_single(*probe)
        expect(student.scaled_dot_product_two_loop_single(*probe), axes="reader feature").equals(expected)


@number("1.2.4")
@weight(2)
@visibility("hidden")
@check(target="scaled_dot_product_two_loop_single", after="single_values", read="#gradients")
def single_gradients(student, reference, probes):
    """gradients reach query, key and value"""
    probe = one_sequence(probes.self_attention())
    same_gradients(student, reference, "scaled_dot_product_two_loop_single", probe, probes.normal(5, 6), None)


@number("1.2.5")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_two_loop_single", after="single_values", read="#dtype")
def single_in_float64(student, reference, probes):
    """float64 in, float64 out, and the inputs stay as they are"""
    probe = one_sequence(probes.self_attention())
    in_float64(student, reference, "scaled_dot_product_two_loop_single", probe, "reader feature")


# 1.3 ------------------------------------------------------------------------------------------------------------------


@number("1.3.1")
@weight(5)
@check(target="scaled_dot_product_two_loop_batch", read="#two-loops-a-batch")
def batch_values(student, reference, probes):
    """the same attention for every sequence of a batch"""
    probe = probes.self_attention(n=3)
    expected = reference.scaled_dot_product_two_loop_batch(*probe)
    expect(student.scaled_dot_product_two_loop_batch(*probe), axes=OUTPUT).equals(expected)


@number("1.3.2")
@weight(2)
@check(target="scaled_dot_product_two_loop_batch", after="batch_values", read="#two-loops-a-batch")
def sequences_do_not_mix(student, probes):
    """a sequence reads within itself: another sequence may change as it likes"""
    probe = probes.self_attention(n=3)
    other = [np.concatenate([array[:1], array[1:] + np.float32(1.5)]) for array in probe]
    before = expect(student.scaled_dot_product_two_loop_batch(*probe)).has_shape(3, 5, 6).value
    after = expect(student.scaled_dot_product_two_loop_batch(*other)).has_shape(3, 5, 6).value
    expect(after[0], "the output of sequence 0, after sequences 1 and 2 changed,", "reader feature").equals(before[0])


@number("1.3.3")
@weight(3)
@check(target="scaled_dot_product_two_loop_batch", after="batch_values", read="#rules")
def batch_is_written_with_loops(student, probes, source):
    """it is written with loops, two at most"""
    rules.loops_over_two_axes(
        source,
        "scaled_dot_product_two_loop_batch",
        lambda k: student.scaled_dot_product_two_loop_batch.operations(*probes.self_attention(n=k - 1, k=k)),
    )


@number("1.3.4")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_two_loop_batch", after="batch_values", read="#two-loops-a-batch")
def batch_small(student, reference, probes):
    """one sequence, one position"""
    for n, k in ((1, 5), (3, 1)):
        probe = probes.self_attention(n=n, k=k)
        expected = reference.scaled_dot_product_two_loop_batch(*probe)
        expect(student.scaled_dot_product_two_loop_batch(*probe), axes=OUTPUT).equals(expected)


@number("1.3.5")
@weight(2)
@visibility("hidden")
@check(target="scaled_dot_product_two_loop_batch", after="batch_values", read="#gradients")
def batch_gradients(student, reference, probes):
    """gradients reach query, key and value"""
    probe = probes.self_attention(n=3)
    same_gradients(student, reference, "scaled_dot_product_two_loop_batch", probe, probes.normal(3, 5, 6), None)


@number("1.3.6")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_two_loop_batch", after="batch_values", read="#dtype")
def batch_in_float64(student, reference, probes):
    """float64 in, float64 out, and the inputs stay as they are"""
    in_float64(student, reference, "scaled_dot_product_two_loop_batch", probes.self_attention(n=3), OUTPUT)


# 1.4 ------------------------------------------------------------------------------------------------------------------


@number("1.4.1")
@weight(8)
@check(target="scaled_dot_product_no_loop_batch", read="#no-loop")
def no_loop_output(student, reference, probes):
    """what every reader gets, readers and sources being different sequences"""
    probe = probes.attention()
    expected, expected_weights = reference.scaled_dot_product_no_loop_batch(*probe)
    y, weights = output_and_weights(student.scaled_dot_product_no_loop_batch(*probe))
    beside = expect(weights, "weights_softmax", WEIGHTS).difference(expected_weights)
    expect(y, "y", OUTPUT).equals(expected, beside=beside)


@number("1.4.2")
@weight(3.5)
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#row-i-reads-column-j")
def no_loop_weights(student, reference, probes):
    """the weights that it returns are those it read with"""
    probe = probes.attention()
    _, expected = reference.scaled_dot_product_no_loop_batch(*probe)
    _, weights = output_and_weights(student.scaled_dot_product_no_loop_batch(*probe))
    expect(weights, "weights_softmax", WEIGHTS).equals(expected)


@number("1.4.3")
@weight(2)
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#row-i-reads-column-j")
def weights_sum_to_one(student, probes):
    """each reader's weights sum to 1"""
    _, weights = output_and_weights(student.scaled_dot_product_no_loop_batch(*probes.attention(n=3, kq=4, k=6)))
    laws.rows_sum_to_one(weights)


@number("1.4.4")
@weight(2)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#large-scores")
def large_scores(student, reference, probes):
    """scores of ±10,000 do not overflow"""
    query, key, value = probes.attention()
    query = query * np.float32(8192)
    expected, _ = reference.scaled_dot_product_no_loop_batch(query, key, value)
    y, weights = output_and_weights(student.scaled_dot_product_no_loop_batch(query, key, value))
    expect(y, "y", OUTPUT).is_finite().equals(expected, tolerance=1e-2)
    laws.rows_sum_to_one(weights)


@number("1.4.5")
@weight(3)
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#masked-sources")
def mask_values(student, reference, probes):
    """with a mask"""
    probe, mask = probes.attention(), probes.mask()
    expected, expected_weights = reference.scaled_dot_product_no_loop_batch(*probe, mask)
    y, weights = output_and_weights(student.scaled_dot_product_no_loop_batch(*probe, mask))
    read = expect(weights, "weights_softmax", WEIGHTS)
    expect(y, "y", OUTPUT).equals(expected, beside=read.difference(expected_weights))
    read.equals(expected_weights)


@number("1.4.6")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after="mask_values", read="#masked-sources")
def masked_source_is_not_read(student, probes):
    """a source that the mask hides has no influence, however large it is"""
    query, key, value = probes.attention()
    # All scores lie far below 0: a masked source whose score is merely low would be the one that is read.
    query, key = np.abs(query) * np.float32(2048), -np.abs(key)
    mask = probes.mask()
    mask[:, :, 4] = True
    mask[:, :, 1] = False
    laws.masked_source_has_no_influence(
        lambda k, v: output_and_weights(student.scaled_dot_product_no_loop_batch(query, k, v, mask))[0],
        (key, value),
        source=4,
        by=50.0,
    )


@number("1.4.7")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after="mask_values", read="#masked-sources")
def mask_broadcasts(student, reference, probes):
    """a mask that only broadcasts to the scores: (1, 1, K), (N, 1, K), (Kq, K)"""
    probe, mask = probes.attention(), probes.mask()
    for smaller in (mask[:1, :1], mask[:, :1], mask[0]):
        expected, _ = reference.scaled_dot_product_no_loop_batch(*probe, smaller)
        y, _ = output_and_weights(student.scaled_dot_product_no_loop_batch(*probe, smaller))
        expect(y, say("y with a mask of shape {shape}", shape=smaller.shape), OUTPUT).equals(expected)


@number("1.4.8")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after=("mask_values", "large_scores"), read="#masked-sources")
def fully_masked_reader(student, probes):
    """a reader that may read nothing still gets finite weights that sum to 1"""
    mask = probes.mask()
    mask[1, 2] = True
    y, weights = output_and_weights(student.scaled_dot_product_no_loop_batch(*probes.attention(), mask))
    expect(y, "y", OUTPUT).is_finite()
    laws.rows_sum_to_one(weights)


@number("1.4.9")
@weight(2)
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#order")
def positions_reorder(student, probes):
    """reordering the positions reorders the output in the same way"""
    x = probes.normal(2, 6, 4)
    laws.permutation_equivariant(
        lambda x: output_and_weights(student.scaled_dot_product_no_loop_batch(x, x, x))[0], x, probes.permutation(6)
    )


@number("1.4.10")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#order")
def sources_may_come_in_any_order(student, probes):
    """reordering the sources together with their values changes nothing"""
    query, key, value = probes.attention()
    laws.sources_reorder(
        lambda k, v: output_and_weights(student.scaled_dot_product_no_loop_batch(query, k, v))[0],
        key,
        value,
        probes.permutation(7),
    )


@number("1.4.11")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#dtype")
def float64_in_float64_out(student, reference, probes):
    """float64 in, float64 out, and as exact"""
    probe = [array.astype(np.float64) for array in probes.attention()]
    expected, expected_weights = reference.scaled_dot_product_no_loop_batch(*probe)
    y, weights = output_and_weights(student.scaled_dot_product_no_loop_batch(*probe))
    expect(y, "y", OUTPUT).has_dtype("float64").equals(expected)
    expect(weights, "weights_softmax", WEIGHTS).has_dtype("float64").equals(expected_weights)


@number("1.4.12")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#no-loop")
def no_loop_small(student, reference, probes):
    """one sequence, one reader, one source"""
    for n, kq, k in ((1, 5, 7), (2, 1, 7), (2, 5, 1)):
        probe = probes.attention(n=n, kq=kq, k=k)
        expected, _ = reference.scaled_dot_product_no_loop_batch(*probe)
        y, _ = output_and_weights(student.scaled_dot_product_no_loop_batch(*probe))
        expect(y, "y", OUTPUT).equals(expected)


@number("1.4.13")
@weight(1)
@check(target="scaled_dot_product_no_loop_batch", after="mask_values", read="#inputs-stay")
def inputs_stay_as_they_are(student, probes):
    """query, key, value and mask are not changed"""
    given = [*probes.attention(), probes.mask()]
    _, afterwards = student.scaled_dot_product_no_loop_batch.call_keeping_inputs(*given)
    laws.inputs_stay("query key value mask", given, afterwards)


@number("1.4.14")
@weight(2)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#gradients")
def no_loop_gradients(student, reference, probes):
    """gradients reach query, key and value"""
    same_gradients(
        student, reference, "scaled_dot_product_no_loop_batch", probes.attention(), probes.normal(2, 5, 6), 0
    )


@number("1.4.15")
@weight(3)
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#rules")
def written_without_a_loop(student, probes, source):
    """no Python loop, no hidden one either"""
    attend = student.scaled_dot_product_no_loop_batch

    def count(k):
        probe, mask = probes.attention(n=k - 1, kq=k + 1, k=k), probes.mask(k - 1, k + 1, k)
        return rules.operations_of(lambda: attend.operations(*probe), lambda: attend.operations(*probe, mask))

    rules.no_loop(source, "scaled_dot_product_no_loop_batch", count)


@number("1.4.16")
@weight(2)
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_output", read="#rules")
def attention_is_not_ready_made(student, probes, source):
    """the ready-made attention of torch is not used"""
    operations = student.scaled_dot_product_no_loop_batch.operations(*probes.attention())
    rules.not_ready_made(source, "scaled_dot_product_no_loop_batch", NOT_ALLOWED, "attention", operations)


@number("1.4.17")
@weight(1)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after="mask_values", read="#masked-sources")
def mask_keeps_to_the_conventions(student, reference, probes):
    """with a mask, too, float64 is as exact and gradients reach query, key and value"""
    symbol, probe, mask = "scaled_dot_product_no_loop_batch", probes.attention(), probes.mask()
    wide = [array.astype(np.float64) for array in probe]
    expected, _ = reference.scaled_dot_product_no_loop_batch(*wide, mask)
    y, _ = output_and_weights(student.scaled_dot_product_no_loop_batch(*wide, mask))
    expect(y, "y", OUTPUT).has_dtype("float64").equals(expected)
    same_gradients(student, reference, symbol, (*probe, mask), probes.normal(2, 5, 6), 0)


@number("1.4.18")
@weight(0.5)
@visibility("hidden")
@check(target="scaled_dot_product_no_loop_batch", after="no_loop_weights", read="#gradients")
def weights_have_gradients(student, reference, probes):
    """gradients flow from the weights to query and key, too"""
    probe, cotangent = probes.attention(), probes.normal(2, 5, 7)
    same_gradients(student, reference, "scaled_dot_product_no_loop_batch", probe, cotangent, 1, "query key")


# 1.5 ------------------------------------------------------------------------------------------------------------------


def a_head(student, probes):
    """A SelfAttention(4 → 3, 6) with distinct parameters everywhere, and these parameters."""
    parameters = probes.parameters(**PROJECTIONS)
    return student.SelfAttention(4, 3, 6).load(parameters), parameters


def head_output(student, reference, probes, mask):
    """A head's output against the reference, or against the student's own no-loop attention behind its projections."""
    x, y = probes.normal(2, 5, 4), probes.normal(2, 7, 4)
    value = probes.normal(2, 7, 4)
    head, parameters = a_head(student, probes)
    expected = reference.SelfAttention(4, 3, 6).load(parameters)(x, y, value, mask)
    got = head(x, y, value, mask)

    def own_parts():
        attend = student.scaled_dot_product_no_loop_batch
        return output_and_weights(attend(head.q(x), head.k(y), head.v(value), mask))[0]

    def alive():
        depends_on_parameters(head, parameters, lambda: head(x, y, value, mask), ("q.weight", "k.weight", "v.weight"))

    equals_reference_or_own_parts(got, expected, own_parts, alive, "the output", OUTPUT)


@number("1.5.1")
@weight(2)
@check(target="SelfAttention", read="#self-attention")
def head_has_projections(student, probes):
    """q, k and v are linear layers of the right sizes, with bias"""
    head, _ = a_head(student, probes)
    x = probes.normal(2, 5, 4)
    for name, width in (("q", 3), ("k", 3), ("v", 6)):
        made = say("what `{name}` makes of {shape}", name=name, shape=x.shape)
        expect(getattr(head, name)(x), made, "sequence position feature").has_shape(2, 5, width)


@number("1.5.2")
@weight(6)
@check(target="SelfAttention", after="head_has_projections", read="#self-attention")
def head_values(student, reference, probes):
    """project, then attend: readers and sources being different sequences"""
    head_output(student, reference, probes, None)


@number("1.5.3")
@weight(2)
@check(target="SelfAttention", after="head_values", read="#weights-softmax")
def head_keeps_its_weights(student, probes):
    """the last weights stand in `weights_softmax`"""
    head, _ = a_head(student, probes)
    x, y = probes.normal(2, 5, 4), probes.normal(2, 7, 4)
    output = expect(head(x, y, y)).has_shape(2, 5, 6).value
    weights = expect(head.weights_softmax.value(), "weights_softmax", WEIGHTS).has_shape(2, 5, 7).value
    read = weights.astype(np.float64) @ expect(head.v(y)).has_shape(2, 7, 6).value
    expect(output, "the output, beside weights_softmax times the values,", OUTPUT).equals(read)


@number("1.5.4")
@weight(2)
@check(target="SelfAttention", after="head_values", read="#masked-sources")
def head_passes_the_mask(student, reference, probes):
    """the mask arrives"""
    head_output(student, reference, probes, probes.mask())


@number("1.5.5")
@weight(2)
@check(target="SelfAttention", after="head_has_projections", read="#initialisation")
def head_starts_uniform(student):
    """q, k and v start uniform in ±√(6 / (D_in + D_out))"""
    head = student.SelfAttention(60, 40, 90)
    for name, d_out in (("q", 40), ("k", 40), ("v", 90)):
        own = f"{name}.weight"
        drawn = expect(getattr(head, name).weight.value(), own).has_shape(d_out, 60).value
        limit = (6 / (60 + d_out)) ** 0.5
        # Of 2,400 draws and more the extremes lie within 1 % of the limit, the spread within 3 %, the mean near 0.
        largest, smallest = say("the largest value of {name}", name=own), say("the smallest value of {name}", name=own)
        expect(float(drawn.max()), largest).is_near(limit, 0.02 * limit)
        expect(float(drawn.min()), smallest).is_near(-limit, 0.02 * limit)
        spread, mean = say("the standard deviation of {name}", name=own), say("the mean of {name}", name=own)
        expect(float(drawn.std()), spread).is_near(limit / 3**0.5, 0.05 * limit)
        expect(float(drawn.mean()), mean).is_near(0, 0.06 * limit)


@number("1.5.6")
@weight(1)
@visibility("hidden")
@check(target="SelfAttention", after="head_values", read="#order")
def head_reorders(student, probes):
    """reordering the positions reorders the output in the same way"""
    head, _ = a_head(student, probes)
    laws.permutation_equivariant(lambda x: head(x, x, x), probes.normal(2, 6, 4), probes.permutation(6))


@number("1.5.7")
@weight(1)
@visibility("hidden")
@check(target="SelfAttention", after="head_values", read="#dtype")
def head_in_float64(student, probes):
    """float64 parameters and inputs give float64, and the inputs stay as they are, the mask too"""
    parameters = {name: array.astype(np.float64) for name, array in probes.parameters(**PROJECTIONS).items()}
    head = student.SelfAttention(4, 3, 6).load(parameters)
    given = [*(probes.normal(1, 5, 4).astype(np.float64) for _ in range(3)), probes.mask(1, 5, 5)]

    def keeps(part, output=lambda value: value):
        got, afterwards = part.call_keeping_inputs(*given)
        expect(output(got)).has_dtype("float64")
        laws.inputs_stay("query key value mask", given, afterwards)

    attend = student.scaled_dot_product_no_loop_batch
    unless_earlier_part(
        lambda: keeps(head), lambda: keeps(attend, lambda value: output_and_weights(value)[0]), "the head in float64"
    )


@number("1.5.8")
@weight(2)
@visibility("hidden")
@check(target="SelfAttention", after="head_values", read="#gradients")
def head_learns(student, probes):
    """gradients reach the weights of q, k and v"""
    head, _ = a_head(student, probes)
    x = probes.normal(2, 5, 4)
    names = ("q.weight", "k.weight", "v.weight", "v.bias")
    found = head.gradients(x, x, x, wrt=names, cotangent=probes.normal(2, 5, 6))
    for name in names:
        gradient = found[name]
        if gradient is None or not np.abs(gradient).max() > 0:
            laws.no_gradient(name, "missing" if gradient is None else "zero")


# 1.6 ------------------------------------------------------------------------------------------------------------------


def edges(student, function, probes, k=5):
    """What `reads` says of one of the starter's functions."""
    value = student.reads(function, probes.normal(1, k, 4))
    return expect(value, "what reads returns", "output input", TOKENS).has_dtype("bool").has_shape(k, k)


@number("1.6.1")
@weight(2)
@check(target="reads", read="#who-reads-whom")
def reads_follows_the_edges(student, probes):
    """a running mean reads a triangle, back to front reads the other diagonal"""
    edges(student, student.running_mean, probes).equals(np.tril(np.ones((5, 5), dtype=bool)))
    edges(student, student.back_to_front, probes).equals(np.eye(5, dtype=bool)[::-1])


@number("1.6.2")
@weight(1)
@check(target="reads", after="reads_follows_the_edges", read="#who-reads-whom")
def mlp_reads_itself_only(student, probes):
    """a position-wise MLP reads the diagonal, and nothing else"""
    edges(student, student.tanh_mlp, probes).equals(np.eye(5, dtype=bool))


@number("1.6.3")
@weight(1)
@check(target="reads", after=("reads_follows_the_edges", "head_values"), read="#who-reads-whom")
def attention_reads_everything(student, probes):
    """attention has every edge"""
    head, _ = a_head(student, probes)
    edges(student, student.ReadsItself(head), probes, 4).equals(np.ones((4, 4), dtype=bool))


@number("1.6.4")
@weight(1)
@visibility("hidden")
@check(target="reads", after="reads_follows_the_edges", read="#who-reads-whom")
def reads_leaves_x_alone(student, probes):
    """other lengths, one position, and x as it was"""
    for k in (1, 3):
        edges(student, student.running_mean, probes, k).equals(np.tril(np.ones((k, k), dtype=bool)))
    x = probes.normal(1, 4, 3)
    _, afterwards = student.reads.call_keeping_inputs(student.tanh_mlp, x)
    laws.inputs_stay("x", [x], afterwards[1:])


@number("1.6.5")
@weight(1)
@visibility("hidden")
@check(target="reads", after="reads_follows_the_edges", read="#who-reads-whom")
def every_gradient_is_an_edge(student, probes):
    """a gradient counts however small it is, below 0 too, and in one feature of the output alone"""
    weight = np.array([[-1e-6, -2e-6, -1e-6, -3e-6], [0, 0, 0, 0]], dtype=np.float32)
    # A linear layer in front of each position; its second feature hears nothing.
    layer = student.module("torch.nn").Linear(4, 2).load({"weight": weight})
    edges(student, layer, probes).equals(np.eye(5, dtype=bool))


# 1.7 ------------------------------------------------------------------------------------------------------------------


@number("1.7.1")
@weight(1.5)
@tags("question")
@check(target="ANSWERS", local=False, read="#attention-matrix")
def answer_attention_matrix(student, reference, questions):
    """what one entry of the attention matrix says"""
    concept.judge(questions, "attention-matrix", student, reference)


@number("1.7.2")
@weight(1.5)
@tags("question")
@check(target="ANSWERS", local=False, read="#q-k-v-same")
def answer_q_k_v_same(student, reference, questions):
    """attention without projections"""
    concept.judge(questions, "q-k-v-same", student, reference)


@number("1.7.3")
@weight(1.5)
@tags("question")
@check(target="ANSWERS", local=False, read="#sum-is-not-a-score")
def answer_sum_is_not_a_score(student, reference, questions):
    """adding q and k"""
    concept.judge(questions, "sum-is-not-a-score", student, reference)


@number("1.7.4")
@weight(1.5)
@tags("question")
@check(target="ANSWERS", local=False, read="#reads-across-positions")
def answer_reads_across_positions(student, reference, questions):
    """what reads across positions"""
    concept.judge(questions, "reads-across-positions", student, reference)


def same_gradients(student, reference, symbol, probe, cotangent, output, names="query key value"):
    """The gradients of the first inputs, by name, are those of the reference."""
    wanted = dict(enumerate(names.split()))
    expected, found = (
        getattr(guest, symbol).gradients(*probe, wrt=list(wanted), cotangent=cotangent, output=output)
        for guest in (reference, student)
    )
    laws.gradients_agree(found, expected, wanted)


def in_float64(student, reference, symbol, probe, axes, names="query key value"):
    """A function of tensors computes in the dtype that it is given, and leaves what it is given alone."""
    wide = [array.astype(np.float64) / 3 for array in probe]  # thirds: float32 cannot hold them
    got, afterwards = getattr(student, symbol).call_keeping_inputs(*wide)
    expect(got, axes=axes).has_dtype("float64").equals(getattr(reference, symbol)(*wide))
    laws.inputs_stay(names, wide, afterwards)
