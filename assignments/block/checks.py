"""The checks of Lab 3. Order, names and numbers are what students see; points per section stand in lab.toml.

One mistake costs its points once, within this lab too: what a wrong attention, norm or variance does to the parts that
are built on it is not counted there again. Where a check asks the reference for an object, it asks before it makes one
of the student's: what the reference is asked is the same in every run, and can be recorded for the student's copy.
"""

import numpy as np
from gradescope_utils.autograder_utils.decorators import number, tags, visibility, weight

from autograder import composition, laws, rules
from autograder import questions as concept
from autograder.check import Mismatch, NeedsReview, check, expect, expect_error, kind
from autograder.language import say
from autograder.tensors import agree

OUTPUT = "sequence position feature"
N, K, M, F, H, LAYERS = 3, 5, 12, 7, 2, 4  # and M / H = 6: all sizes differ
# A change of one position that is no common shift of its features, which a layer norm would not feel.
RAMP = np.linspace(-2, 3, M).astype(np.float32)


def linear(name, wide, narrow):
    """The shapes of a linear layer's parameters."""
    return {f"{name}.weight": (wide, narrow), f"{name}.bias": (wide,)}


def inside(part, shapes):
    """The same parameters as those of a part."""
    return {f"{part}.{name}": shape for name, shape in shapes.items()}


FFN = linear("linear1", F, M) | linear("linear2", M, F)
NORM = {"gamma": (M,), "beta": (M,)}
ATTENTION = linear("linear_mult", M, M)
for projection in (f"heads.{h}.{part}" for h in range(H) for part in "qkv"):
    ATTENTION |= linear(projection, M // H, M)
BLOCK = inside("attention", ATTENTION) | inside("norm1", NORM) | inside("feedforward", FFN) | inside("norm2", NORM)


def in_float64(values):
    """Four thirds of the same numbers, which float32 cannot hold."""
    if isinstance(values, dict):
        return {name: in_float64(array) for name, array in values.items()}
    return values.astype(np.float64) * 4 / 3


# 3.1 ------------------------------------------------------------------------------------------------------------------


def all_positive(probes, n=N, k=K):
    """Parameters and an input that make everything in the feed-forward network large and positive: ReLU has no say."""
    parameters = {name: probes.uniform(*shape, low=1, high=2) for name, shape in FFN.items()}
    return parameters, probes.uniform(n, k, M, low=1, high=2)


@number("3.1.1")
@weight(4)
@check(target="FeedForwardBlock", read="#digest-what-was-read")
def ffn_layers(student, reference, probes):
    """linear1, then linear2, at every position (all numbers positive, so that ReLU changes nothing)"""
    parameters, x = all_positive(probes)
    expected = reference.FeedForwardBlock(M, F).load(parameters)(x)
    expect(student.FeedForwardBlock(M, F).load(parameters)(x), axes=OUTPUT).equals(expected)


@number("3.1.2")
@weight(3)
@check(target="FeedForwardBlock", after="ffn_layers", read="#digest-what-was-read")
def ffn_relu(student, reference, probes):
    """one ReLU, between the two: the table of the handout, then other numbers"""
    by_hand = {
        "linear1.weight": np.array([[1, 0], [0, 1], [1, -1]], dtype=np.float32),
        "linear1.bias": np.array([0, -1, 0], dtype=np.float32),
        "linear2.weight": np.array([[1, 0, 2], [0, 1, -1]], dtype=np.float32),
        "linear2.bias": np.array([0, 0.5], dtype=np.float32),
    }
    rows = np.array([[[2, 1], [1, 3], [-1, 2]]] * 2, dtype=np.float32)
    parameters, x = probes.parameters(**FFN), probes.normal(N, K, M)
    expected = reference.FeedForwardBlock(M, F).load(parameters)(x)
    # Both are asked before either is judged: a mistake that is named fits more than the table.
    table = student.FeedForwardBlock(2, 3).load(by_hand)(rows)
    got = student.FeedForwardBlock(M, F).load(parameters)(x)
    expect(table, axes=OUTPUT).equals([[[4, -0.5], [1, 2.5], [0, 1.5]]] * 2)
    expect(got, axes=OUTPUT).equals(expected)


@number("3.1.3")
@weight(1)
@check(target="FeedForwardBlock", after="ffn_layers", read="#what-commuting-means")
def ffn_reorders(student, probes):
    """the feed-forward network commutes with reordering the positions"""
    ffn = student.FeedForwardBlock(M, F).load(probes.parameters(**FFN))
    laws.permutation_equivariant(ffn, probes.normal(N, K, M), probes.permutation(K))


@number("3.1.4")
@weight(1)
@check(target="FeedForwardBlock", after="ffn_layers", read="#digest-what-was-read")
def ffn_reads_its_own_position(student, probes):
    """each position is digested alone: the others may change as they like"""
    parameters, x = all_positive(probes)
    edges = laws.influence(student.FeedForwardBlock(M, F).load(parameters), x)
    expect(edges, "whether an output depends on an input", "output input").equals(np.eye(K, dtype=bool))


@number("3.1.5")
@weight(1)
@visibility("hidden")
@check(target="FeedForwardBlock", after="ffn_layers", read="#conventions")
def ffn_in_float64(student, reference, probes):
    """float64 in, float64 out, and as exact"""
    parameters, x = (in_float64(value) for value in all_positive(probes))
    expected = reference.FeedForwardBlock(M, F).load(parameters)(x)
    got = student.FeedForwardBlock(M, F).load(parameters)(x)
    expect(got, axes=OUTPUT).has_dtype("float64").equals(expected)


@number("3.1.6")
@weight(1)
@visibility("hidden")
@check(target="FeedForwardBlock", after="ffn_layers", read="#conventions")
def ffn_small(student, reference, probes):
    """one sequence, one position"""
    for n, k in ((1, K), (N, 1)):
        parameters, x = all_positive(probes, n, k)
        expected = reference.FeedForwardBlock(M, F).load(parameters)(x)
        expect(student.FeedForwardBlock(M, F).load(parameters)(x), axes=OUTPUT).equals(expected)


@number("3.1.7")
@weight(1)
@visibility("hidden")
@check(target="FeedForwardBlock", after="ffn_layers", read="#conventions")
def ffn_gradients(student, reference, probes):
    """gradients reach x and both layers"""
    (parameters, x), cotangent = all_positive(probes), probes.normal(N, K, M)
    names = {0: "x", **{name: name for name in FFN}}
    asked = {"wrt": list(names), "cotangent": cotangent}
    expected = reference.FeedForwardBlock(M, F).load(parameters).gradients(x, **asked)
    found = student.FeedForwardBlock(M, F).load(parameters).gradients(x, **asked)
    laws.gradients_agree(found, expected, names)


# 3.2 ------------------------------------------------------------------------------------------------------------------

PLAIN = {"gamma": np.ones(M, dtype=np.float32), "beta": np.zeros(M, dtype=np.float32)}
SHARE = (M - 1) / M
# `std` is missing here: it is what students call their own root. The ready-made one shows as an operation.
READY_NORMS = (
    *("LayerNorm", "layer_norm", "native_layer_norm", "RMSNorm", "rms_norm", "GroupNorm", "group_norm"),
    *("BatchNorm1d", "BatchNorm2d", "batch_norm", "InstanceNorm1d", "InstanceNorm2d", "instance_norm"),
    *("normalize", "std_mean"),
)


def a_norm(student, parameters=PLAIN, epsilon=1e-10, m=M):
    """A norm of the student's. Whether gamma and beta are parameters is the matter of one check, not of each."""
    norm = student.LayerNormalization(m, epsilon=epsilon)
    composition.load_what_fits(norm, {name: value[:m] for name, value in parameters.items()})
    return norm


def either_variance(reference, x, epsilon=1e-10):
    """The normalised features with the variance divided by M, and by M - 1, which costs its points in one check."""
    biased = reference.LayerNormalization(M, epsilon)(x)
    unbiased = reference.LayerNormalization(M, epsilon * SHARE)(x) * SHARE**0.5
    return biased, unbiased


def equals_either(got, accepted, name="the output"):
    """`got` is the first of two arrays, or the second; what is wrong is said of the first."""
    first, second = accepted
    if not (isinstance(got, np.ndarray) and agree(got, second)):
        expect(got, name, OUTPUT).equals(first)


@number("3.2.1")
@weight(4)
@check(target="LayerNormalization", read="#one-mean-for-each-position")
def norm_over_features(student, reference, probes):
    """each position is centred, and scaled by its own spread, over its features"""
    # Positions of different size and place: only the mean and spread of each make them alike.
    x = probes.normal(N, K, M) * probes.uniform(N, K, 1, low=0.5, high=4) + probes.normal(N, K, 1, scale=2)
    accepted = either_variance(reference, x)
    equals_either(a_norm(student)(x), accepted)


@number("3.2.2")
@weight(3)
@check(target="LayerNormalization", after="norm_over_features", read="#one-mean-for-each-position")
def norm_variance(student, reference, probes):
    """the variance is the biased one: the table of the handout, then other numbers"""
    x = probes.normal(N, K, M)
    expected = reference.LayerNormalization(M)(x)
    rows = np.array([[[1, 2, 3, 6], [10, 20, 30, 60]]] * 2, dtype=np.float32)
    by_hand = np.array([-2, -1, 0, 3]) / 3.5**0.5
    # Both are asked before either is judged: a mistake that is named fits more than the table.
    table, got = a_norm(student, m=4)(rows), a_norm(student)(x)
    expect(table, axes=OUTPUT).equals([[by_hand, by_hand]] * 2)
    expect(got, axes=OUTPUT).equals(expected)


@number("3.2.3")
@weight(3)
@check(target="LayerNormalization", after="norm_over_features", read="#one-mean-for-each-position")
def norm_gamma_beta(student, reference, probes):
    """gamma scales each feature, beta shifts it"""
    parameters, x = probes.parameters(**NORM), probes.normal(N, K, M)
    accepted = [parameters["gamma"] * plain + parameters["beta"] for plain in either_variance(reference, x)]
    equals_either(student.LayerNormalization(M).load(parameters)(x), accepted)


@number("3.2.4")
@weight(1)
@check(target="LayerNormalization", after="norm_gamma_beta", read="#one-mean-for-each-position")
def norm_starts_plain(student):
    """gamma starts at 1, beta at 0"""
    found = student.LayerNormalization(M).parameters()
    for name, value in PLAIN.items():
        expect(found.get(name), name, "feature").equals(value)


@number("3.2.5")
@weight(3)
@check(target="LayerNormalization", after="norm_over_features", read="#where-epsilon-stands")
def norm_epsilon(student, reference, probes):
    """epsilon is added to the variance, inside the root: epsilon = 0.1, then 1e-10 on features that are nearly equal"""
    # Spreads around √epsilon: there, inside the root, outside and forgotten are three different things.
    spread = np.array([2, 1, 0.5, 0.25, 0.0625], dtype=np.float32)[:K, None]
    for epsilon, size in ((0.1, 1), (1e-10, 2**-15)):
        x = probes.normal(N, K, M) * spread * np.float32(size)
        accepted = either_variance(reference, x, epsilon)
        name = say("the output for epsilon = {epsilon}", epsilon=f"{epsilon:g}")
        equals_either(a_norm(student, epsilon=epsilon)(x), accepted, name)


@number("3.2.6")
@weight(2)
@check(target="LayerNormalization", after="norm_gamma_beta", read="#one-mean-for-each-position")
def norm_of_equal_features(student, probes):
    """a position whose features are all equal becomes beta, never NaN"""
    parameters, x = probes.parameters(**NORM), probes.normal(N, K, M)
    x[1, 3], x[2, 0] = 2, -4  # their sums are exact in float32, so that nothing but 0 is left of them
    got = expect(a_norm(student, parameters)(x), axes=OUTPUT).has_shape(N, K, M).is_finite().value
    for n, k in ((1, 3), (2, 0)):
        name = say("the output at sequence {n}, position {k}", n=n, k=k)
        expect(got[n, k], name, "feature").equals(parameters["beta"])


@number("3.2.7")
@weight(1)
@check(target="LayerNormalization", after="norm_over_features", read="#what-commuting-means")
def norm_reorders(student, probes):
    """the norm commutes with reordering the positions"""
    norm = a_norm(student, probes.parameters(**NORM))
    laws.permutation_equivariant(norm, probes.normal(N, K, M), probes.permutation(K))


@number("3.2.8")
@weight(1)
@visibility("hidden")
@check(target="LayerNormalization", after="norm_over_features", read="#conventions")
def norm_in_float64(student, reference, probes):
    """float64 in, float64 out, and as exact"""
    x = in_float64(probes.normal(N, K, M)) * 4096  # so large that a forgotten epsilon, judged elsewhere, cannot be seen
    accepted = either_variance(reference, x)
    got = a_norm(student, {name: value.astype(np.float64) for name, value in PLAIN.items()})(x)
    expect(got).has_dtype("float64")
    equals_either(got, accepted)


@number("3.2.9")
@weight(1)
@visibility("hidden")
@check(target="LayerNormalization", after="norm_over_features", read="#conventions")
def norm_small(student, reference, probes):
    """one sequence, one position, as many positions as features"""
    for n, k in ((1, K), (N, 1), (N, M)):
        x = probes.normal(n, k, M)
        accepted = either_variance(reference, x)
        equals_either(a_norm(student)(x), accepted)


@number("3.2.10")
@weight(1)
@visibility("hidden")
@check(target="LayerNormalization", after="norm_gamma_beta", read="#conventions")
def norm_gradients(student, reference, probes):
    """gradients reach x, gamma and beta, and pass through mean and variance"""
    parameters, x = probes.parameters(**NORM), probes.normal(N, K, M)
    asked = {"wrt": (0, "gamma", "beta"), "cotangent": probes.normal(N, K, M)}
    expected = reference.LayerNormalization(M).load(parameters).gradients(x, **asked)
    found = student.LayerNormalization(M).load(parameters).gradients(x, **asked)
    for key, name in {0: "x", "gamma": "gamma", "beta": "beta"}.items():
        equals_either(found[key], (expected[key], expected[key] * SHARE**0.5), say("the gradient of {name}", name=name))


@number("3.2.11")
@weight(1)
@check(target="LayerNormalization", after="norm_over_features", read="#conventions")
def norm_leaves_x_alone(student, probes):
    """x is not changed"""
    x = probes.normal(N, K, M)
    _, afterwards = a_norm(student).call_keeping_inputs(x)
    laws.inputs_stay("x", [x], afterwards)


@number("3.2.12")
@weight(1)
@check(target="LayerNormalization", after="norm_over_features", read="#rules")
def norm_is_written_out(student, probes, source):
    """no ready-made normalisation or standard deviation of torch is used"""
    operations = a_norm(student).operations(probes.normal(N, K, M))
    rules.not_ready_made(source, "LayerNormalization", READY_NORMS, "layer norm", operations)
    rules.not_ready_made(source, "LayerNormalization", (), "standard deviation", operations)


# 3.3 ------------------------------------------------------------------------------------------------------------------


PARTS = ("attention", "norm1", "feedforward", "norm2")


def a_block(student, parameters, dropout=0.0):
    """The student's EncoderBlock in eval mode, with those of the parameters that its own parts have."""
    block = student.EncoderBlock(H, M, F, dropout).eval()
    composition.load_what_fits(block, parameters)
    return block


def what_gives(name):
    """The output of a part, in words."""
    return say("what `{name}` gives", name=name)


def parts_alone(block, x, mask=None):
    """Something of each of the student's own parts: what none of them does to `x`, the block must not do either."""
    parts = {
        "attention": block.attention(x, x, x, mask),
        "norm1": block.norm1(x),
        "feedforward": block.feedforward(x),
        "norm2": block.norm2(x),
    }
    return sum(expect(value, what_gives(name)).has_shape(*x.shape).value for name, value in parts.items())


def block_output(student, reference, probes, put_together, dropout=0.0, train=False, n=N, k=K, cast=None):
    """A block's output against the reference, or the student's own parts as `put_together(block, x)` uses them."""
    parameters, x = probes.parameters(**BLOCK), probes.normal(n, k, M)
    if cast:
        parameters, x = cast(parameters), cast(x)
    expected = reference.EncoderBlock(H, M, F, dropout).train(train).load(parameters)(x)
    block = a_block(student, parameters, dropout).train(train)
    for part in PARTS:
        getattr(block, part).parameters()  # says which of them is not there

    def judge(alive=lambda: None):
        got, own_parts = block(x), (lambda: put_together(block, x))
        composition.equals_reference_or_own_parts(got, expected, own_parts, alive, "the output", OUTPUT)
        expect(got).has_dtype(x.dtype.name)

    if (n, k, cast, train) == (N, K, None, False):
        judge(lambda: every_part_counts(block, x))
    else:  # comes after that: every part was seen to count, but need not take this x
        composition.unless_earlier_part(judge, lambda: parts_alone(block, x), "the block")


def post_norm(block, x, mask=None):
    """The student's own four parts in the order of the handout, the sums made here."""
    u = block.norm1(x + expect(block.attention(x, x, x, mask), what_gives("attention")).is_tensor().value)
    return block.norm2(u + expect(block.feedforward(u), what_gives("feedforward")).is_tensor().value)


def feels_its_parameters(part, x):
    """Whether a part alone gives something else with other parameters."""
    own, before = part.parameters(), part(x)
    steps = {name: np.linspace(0.25, 0.5, value.size).reshape(value.shape) for name, value in own.items()}
    part.load({name: value + steps[name].astype(value.dtype) for name, value in own.items()})
    after = part(x)
    part.load(own)
    return not (isinstance(before, np.ndarray) and isinstance(after, np.ndarray) and agree(after, before))


def every_part_counts(block, x):
    """No block that returns a constant, or leaves out a part."""
    # A part that does not feel its parameters, or has none of that name, has cost its points in 3.1 or 3.2.
    feeling = [part for part in PARTS[1:] if feels_its_parameters(getattr(block, part), x)]
    composition.depends_on_parts(block, block.parameters(), lambda: block(x), feeling)
    laws.reads_other_positions(block, x, 1, RAMP)


@number("3.3.1")
@weight(2)
@check(target="EncoderBlock", read="#read-then-digest")
def block_reads_and_digests(student, probes):
    """its attention reads other positions, its feed-forward network takes part"""
    parameters, x = probes.parameters(**BLOCK), probes.normal(N, K, M)
    attention = student.module("multihead").MultiHeadAttention
    for name, call in (  # where one of them gives another shape, no block can be made of it
        ("MultiHeadAttention", lambda: attention(H, M, M // H)(x, x, x)),
        ("LayerNormalization", lambda: student.LayerNormalization(M)(x)),
        ("FeedForwardBlock", lambda: student.FeedForwardBlock(M, F)(x)),
    ):
        composition.needs(name, lambda name=name, call=call: expect(call(), "its output").has_shape(N, K, M))
    block = a_block(student, parameters)
    first = expect(block(x), axes=OUTPUT).has_shape(N, K, M).is_finite().value
    expect(block(x), "the output of a second call, without dropout,", OUTPUT).equals(first)
    laws.reads_other_positions(block, x, 1, RAMP)
    if block.feedforward.parameters():
        composition.depends_on_parts(block, block.parameters(), lambda: block(x), ["feedforward"])


@number("3.3.2")
@weight(2)
@check(target="EncoderBlock", after="block_reads_and_digests", read="#read-then-digest")
def block_has_its_parts(student):
    """attention, norm1, feedforward and norm2 are made of your own classes, in the right sizes"""
    block = student.EncoderBlock(H, M, F, 0.0)
    norm = student.LayerNormalization(M)
    alone = (student.module("multihead").MultiHeadAttention(H, M, M // H), norm, student.FeedForwardBlock(M, F), norm)
    for name, own in zip(PARTS, alone):
        found = {part: array.shape for part, array in getattr(block, name).parameters().items()}
        for part, array in own.parameters().items():
            if part not in found:
                raise Mismatch(
                    say("`{name}` has no `{part}`, which your own class has: is it made of that?", name=name, part=part)
                )
            if found[part] != array.shape:
                sizes = {"got": found[part], "wanted": array.shape}
                raise Mismatch(say("{name} has shape {got}, expected {wanted}.", name=f"`{name}.{part}`", **sizes))


@number("3.3.3")
@weight(7)
@check(target="EncoderBlock", after="block_reads_and_digests", read="#sum-first-then-norm")
def block_values(student, reference, probes):
    """attention, sum, norm1, feed-forward network, sum, norm2"""
    block_output(student, reference, probes, post_norm)


@number("3.3.4")
@weight(3)
@check(target="EncoderBlock", after="block_reads_and_digests", read="#the-mask-goes-to-the-attention")
def block_passes_the_mask(student, probes):
    """the mask arrives: a position that it hides has no influence on the others"""
    x, mask = probes.normal(N, K, M), probes.mask(N, K, K)
    mask[:, :, K - 1], mask[:, :, 1] = True, False
    block = a_block(student, probes.parameters(**BLOCK))

    def hides_the_last(function):
        def others(x):
            return expect(function(x)).has_shape(N, K, M).value[:, : K - 1]

        laws.masked_source_has_no_influence(others, [x], source=K - 1, by=RAMP)

    def judge():
        got = expect(block(x, mask)).has_shape(N, K, M).value
        if agree(got, post_norm(block, x, mask)) and not agree(got, block(x)):
            return  # the mask arrives, whatever the student's own attention makes of it
        hides_the_last(lambda x: block(x, mask))
        laws.reads_other_positions(lambda x: block(x, mask), x, 1, RAMP)

    composition.unless_earlier_part(judge, lambda: hides_the_last(lambda x: parts_alone(block, x, mask)), "the mask")


@number("3.3.5")
@weight(3)
@check(target="EncoderBlock", after="block_values", read="#where-dropout-sits")
def block_drops_what_is_added(student, reference, probes):
    """in train mode with dropout=1.0 only LN2(LN1(H)) is left"""
    plan = {"dropout": 1.0, "train": True}
    block_output(student, reference, probes, lambda block, x: block.norm2(block.norm1(x)), **plan)


@number("3.3.6")
@weight(2)
@check(target="EncoderBlock", after="block_reads_and_digests", read="#where-dropout-sits")
def block_in_eval_mode(student, probes):
    """in eval mode dropout does nothing"""
    parameters, x = probes.parameters(**BLOCK), probes.normal(N, K, M)
    half = a_block(student, parameters, dropout=0.5)
    first = expect(half(x)).is_tensor().value
    expect(half(x), "the output of a second call in eval mode", OUTPUT).equals(first)
    laws.reads_other_positions(a_block(student, parameters, dropout=1.0), x, 1, RAMP)


@number("3.3.7")
@weight(1)
@check(target="EncoderBlock", after="block_reads_and_digests", read="#what-commuting-means")
def block_reorders(student, probes):
    """the whole block commutes with reordering the positions"""
    block = a_block(student, probes.parameters(**BLOCK))
    x, order = probes.normal(N, K, M), probes.permutation(K)
    composition.unless_earlier_part(
        lambda: laws.permutation_equivariant(block, x, order, "the block's output"),
        lambda: laws.permutation_equivariant(lambda x: parts_alone(block, x), x, order),
        "reordering the block",
    )


@number("3.3.8")
@weight(1)
@visibility("hidden")
@check(target="EncoderBlock", after="block_values", read="#conventions")
def block_small(student, reference, probes):
    """one sequence, one position"""
    for n, k in ((1, K), (N, 1)):
        block_output(student, reference, probes, post_norm, n=n, k=k)


@number("3.3.9")
@weight(1)
@visibility("hidden")
@check(target="EncoderBlock", after="block_values", read="#conventions")
def block_in_float64(student, reference, probes):
    """float64 in, float64 out, and as exact"""
    block_output(student, reference, probes, post_norm, cast=in_float64)


@number("3.3.10")
@weight(1)
@visibility("hidden")
@check(target="EncoderBlock", after="block_reads_and_digests", read="#conventions")
def block_gradients(student, probes):
    """gradients reach x, the attention and the feed-forward network"""
    block = a_block(student, probes.parameters(**BLOCK))
    x, cotangent = probes.normal(N, K, M), probes.normal(N, K, M)
    # No biases: softmax does not feel that of the keys, so its gradient is 0.
    reading = [name for name in block.attention.parameters() if name.endswith("weight")]
    digesting = [name for name in block.feedforward.parameters() if name.endswith("weight")]

    def reach(module, inputs, weights):
        found = module.gradients(*inputs, wrt=[0, *weights], cotangent=cotangent)
        laws.gradients_reach(found, {0: "x", **{name: name for name in weights}})

    def parts_below():
        reach(block.attention, [x, x, x], reading)
        reach(block.feedforward, [x], digesting)

    inside_block = [f"attention.{name}" for name in reading] + [f"feedforward.{name}" for name in digesting]
    composition.unless_earlier_part(lambda: reach(block, [x], inside_block), parts_below, "the block's gradients")


@number("3.3.11")
@weight(1)
@check(target="EncoderBlock", after="block_reads_and_digests", read="#read-then-digest")
def block_needs_equal_shares(student):
    """heads that cannot share the features out evenly raise ValueError"""
    when = say("where emb_dim = {m} is not a multiple of num_heads = {h}", m=M, h=5)
    expect_error("ValueError", lambda: student.EncoderBlock(5, M, F, 0.0), when)


@number("3.3.12")
@weight(1)
@check(target="EncoderBlock", after="block_reads_and_digests", read="#conventions")
def block_leaves_inputs_alone(student, probes):
    """x and mask are not changed"""
    block = a_block(student, probes.parameters(**BLOCK))
    x, mask = probes.normal(N, K, M), probes.mask(N, K, K)

    def unchanged(module, *given):
        _, afterwards = module.call_keeping_inputs(*given)
        laws.inputs_stay("x mask", (given[0], given[-1]), (afterwards[0], afterwards[-1]))

    composition.unless_earlier_part(
        lambda: unchanged(block, x, mask), lambda: unchanged(block.attention, x, x, x, mask), "the block's inputs"
    )


@number("3.3.13")
@weight(1)
@check(target="EncoderBlock", after="block_reads_and_digests", read="#rules")
def block_is_not_ready_made(student, probes, source):
    """no ready-made block, attention or norm of torch is used"""
    x = probes.normal(N, K, M)
    block = a_block(student, probes.parameters(**BLOCK))
    # What the student's own parts do is judged where they are judged.
    alone = {**block.attention.operations(x, x, x), **student.LayerNormalization(M).operations(x)}
    operations = {name: count for name, count in block.operations(x).items() if name not in alone}
    ready_made = (*rules.ATTENTION, "TransformerEncoder", "Transformer")
    rules.not_ready_made(source, "EncoderBlock", ready_made, "attention", operations)
    rules.not_ready_made(source, "EncoderBlock", (), "layer norm", operations)


# 3.4 ------------------------------------------------------------------------------------------------------------------


def an_encoder(student, parameters, layers=LAYERS, dropout=0.0):
    """The student's Encoder in eval mode, with those of the parameters that its own parts have."""
    encoder = student.Encoder(layers, H, M, F, dropout).eval()
    composition.load_what_fits(encoder, parameters)
    return encoder


def stack_parameters(probes, layers=LAYERS):
    """Distinct parameters for every layer, by name."""
    shapes = {}
    for i in range(layers):
        shapes |= inside(f"layers.{i}", BLOCK)
    return probes.parameters(**shapes)


def stack_output(student, reference, probes, mask=None, layers=LAYERS, n=N, k=K):
    """A stack's output against the reference, or against the student's own blocks, one after the other."""
    parameters, x = stack_parameters(probes, layers), probes.normal(n, k, M)
    expected = reference.Encoder(layers, H, M, F, 0.0).eval().load(parameters)(x, mask)
    encoder = an_encoder(student, parameters, layers)

    def one_after_the_other():
        state = x
        for i in range(layers):
            state = encoder.layers[i](state, mask)
        return state

    def every_layer_counts():
        own = encoder.parameters()
        # Of layers that share their weights one is named; 3.4.3 judges that.
        names = dict.fromkeys(".".join(name.split(".")[:2]) for name in own)
        composition.depends_on_parts(encoder, own, lambda: encoder(x, mask), list(names) or ["layers.0"])

    def judge(alive=lambda: None):
        got = encoder(x, mask)
        composition.equals_reference_or_own_parts(got, expected, one_after_the_other, alive, "the output", OUTPUT)

    if mask is None and (layers, n, k) == (LAYERS, N, K):
        judge(every_layer_counts)
    else:  # comes after that: every layer was seen to count, but the student's own block need not take this x
        composition.unless_earlier_part(judge, lambda: expect(one_after_the_other()).has_shape(n, k, M), "the stack")


@number("3.4.1")
@weight(5)
@check(target="Encoder", read="#block-upon-block")
def stack_values(student, reference, probes):
    """all blocks, one after the other"""
    x = np.zeros((N, K, M), dtype=np.float32)
    composition.needs("EncoderBlock", lambda: student.EncoderBlock(H, M, F, 0.0)(x))
    stack_output(student, reference, probes)


@number("3.4.2")
@weight(2)
@check(target="Encoder", after="stack_values", read="#block-upon-block")
def stack_passes_the_mask(student, reference, probes):
    """every block gets the mask"""
    stack_output(student, reference, probes, mask=probes.mask(N, K, K))


@number("3.4.3")
@weight(1)
@check(target="Encoder", after="stack_values", read="#block-upon-block")
def stack_has_weights_of_its_own(student):
    """num_layers blocks of the sizes that are asked for, each with weights of its own"""
    names = student.Encoder(LAYERS, H, M, F, 0.0).parameters()
    found = {int(name.split(".")[1]) for name in names if name.startswith("layers.") and name.split(".")[1].isdigit()}
    expect(len(found), "the number of layers that have weights of their own").is_near(LAYERS, 0)
    # Elsewhere only those parameters are loaded that fit: other sizes would not be noticed.
    for name, alone in student.EncoderBlock(H, M, F, 0.0).parameters().items():
        for i in sorted(found):
            inside_stack = f"layers.{i}.{name}"
            if inside_stack not in names:
                raise Mismatch(
                    say(
                        "An EncoderBlock has a parameter {name}, the Encoder has no {wanted}.",
                        name=name,
                        wanted=inside_stack,
                    )
                )
            shape, wanted = names[inside_stack].shape, alone.shape
            if shape != wanted:
                raise Mismatch(
                    say(
                        "{name} has shape {shape}; in an EncoderBlock of these sizes it is {wanted}.",
                        name=inside_stack,
                        shape=shape,
                        wanted=wanted,
                    )
                )


@number("3.4.4")
@weight(1)
@check(target="Encoder", after="stack_values", read="#where-dropout-sits")
def stack_hands_dropout_on(student, reference, probes):
    """every block gets the dropout: in train mode with dropout=1.0 the norms are left"""
    parameters, x = stack_parameters(probes), probes.normal(N, K, M)
    expected = reference.Encoder(LAYERS, H, M, F, 1.0).train().load(parameters)(x)
    encoder = an_encoder(student, parameters, dropout=1.0)

    def blocks_with_this_dropout():
        state = x
        for i in range(LAYERS):
            state = a_block(student, encoder.layers[i].parameters(), dropout=1.0).train()(state)
        return state

    got = encoder.train()(x)
    composition.equals_reference_or_own_parts(
        got, expected, blocks_with_this_dropout, lambda: None, "the output", OUTPUT
    )


@number("3.4.5")
@weight(1)
@check(target="Encoder", after="stack_values", read="#what-commuting-means")
def stack_reorders(student, probes):
    """the whole stack commutes with reordering the positions"""
    encoder = an_encoder(student, stack_parameters(probes))
    x, order = probes.normal(N, K, M), probes.permutation(K)
    composition.unless_earlier_part(
        lambda: laws.permutation_equivariant(encoder, x, order, "the stack's output"),
        lambda: laws.permutation_equivariant(encoder.layers[0], x, order),
        "reordering the stack",
    )


@number("3.4.6")
@weight(0.5)
@visibility("hidden")
@check(target="Encoder", after="stack_values", read="#conventions")
def stack_small(student, reference, probes):
    """one layer, one sequence, one position"""
    for layers, n, k in ((1, N, K), (LAYERS, 1, K), (LAYERS, N, 1)):
        stack_output(student, reference, probes, layers=layers, n=n, k=k)


@number("3.4.7")
@weight(1)
@visibility("hidden")
@check(target="Encoder", after="stack_values", read="#conventions")
def stack_gradients(student, probes):
    """gradients reach x and every layer"""
    encoder = an_encoder(student, stack_parameters(probes))
    x, cotangent = probes.normal(N, K, M), probes.normal(N, K, M)
    weights = [name for name in encoder.layers[0].parameters() if name.startswith("feedforward.")]

    def reach(module, names):
        found = module.gradients(x, wrt=[0, *names], cotangent=cotangent)
        laws.gradients_reach(found, {0: "x", **{name: name for name in names}})

    own = encoder.parameters()
    everywhere = [f"layers.{i}.{name}" for i in range(LAYERS) for name in weights if f"layers.{i}.{name}" in own]
    composition.unless_earlier_part(
        lambda: reach(encoder, everywhere), lambda: reach(encoder.layers[0], weights), "the stack's gradients"
    )


@number("3.4.8")
@weight(0.5)
@visibility("hidden")
@check(target="Encoder", after="stack_values", read="#conventions")
def stack_in_float64(student, probes):
    """float64 in, float64 out, and x and mask stay as they are"""
    encoder = an_encoder(student, in_float64(stack_parameters(probes)))
    given = [in_float64(probes.normal(N, K, M)), probes.mask(N, K, K)]

    def keeps(module):
        got, afterwards = module.call_keeping_inputs(*given)
        expect(got, axes=OUTPUT).has_dtype("float64")
        laws.inputs_stay("x mask", given, afterwards)

    composition.unless_earlier_part(lambda: keeps(encoder), lambda: keeps(encoder.layers[0]), "the stack in float64")


# 3.5 ------------------------------------------------------------------------------------------------------------------


def dropout_probe(probes, n=N, k=K, m=7):
    """x and a mask that keeps about two thirds, with something kept and something dropped."""
    keep = probes.integers(n, k, m, below=3) > 0
    keep[..., 0], keep[..., 1] = True, False
    return probes.normal(n, k, m), keep


@number("3.5.1")
@weight(3)
@check(target="dropout_with_mask", read="#dropout-without-chance")
def dropout_values(student, reference, probes):
    """0 where the entry is dropped, divided by 1 - p elsewhere"""
    x, keep = dropout_probe(probes)
    for p in (0.25, 0.9):
        expected = reference.dropout_with_mask(x, keep, p)
        expect(student.dropout_with_mask(x, keep, p), say("the output for p = {p}", p=p), OUTPUT).equals(expected)


@number("3.5.2")
@weight(1)
@visibility("hidden")
@check(target="dropout_with_mask", after="dropout_values", read="#dropout-without-chance")
def dropout_extremes(student, reference, probes):
    """everything kept, everything dropped, p = 0"""
    x, keep = dropout_probe(probes)
    for mask, p in ((np.ones_like(keep), 0.25), (np.zeros_like(keep), 0.25), (keep, 0.0)):
        expected = reference.dropout_with_mask(x, mask, p)
        expect(student.dropout_with_mask(x, mask, p), axes=OUTPUT).equals(expected)


@number("3.5.3")
@weight(1)
@visibility("hidden")
@check(target="dropout_with_mask", after="dropout_values", read="#conventions")
def dropout_in_float64(student, reference, probes):
    """float64 in, float64 out, and as exact"""
    x, keep = dropout_probe(probes)
    x = in_float64(x)
    expected = reference.dropout_with_mask(x, keep, 0.1)
    expect(student.dropout_with_mask(x, keep, 0.1), axes=OUTPUT).has_dtype("float64").equals(expected)


@number("3.5.4")
@weight(1)
@check(target="dropout_with_mask", after="dropout_values", read="#conventions")
def dropout_leaves_inputs_alone(student, probes):
    """x and keep are not changed"""
    given = dropout_probe(probes)
    _, afterwards = student.dropout_with_mask.call_keeping_inputs(*given, 0.25)
    laws.inputs_stay("x keep", given, afterwards)


@number("3.5.5")
@weight(1)
@visibility("hidden")
@check(target="dropout_with_mask", after="dropout_values", read="#conventions")
def dropout_gradients(student, reference, probes):
    """gradients reach what is kept"""
    x, keep = dropout_probe(probes)
    cotangent = probes.normal(*x.shape)
    expected = reference.dropout_with_mask.gradients(x, keep, 0.25, wrt=(0,), cotangent=cotangent)
    found = student.dropout_with_mask.gradients(x, keep, 0.25, wrt=(0,), cotangent=cotangent)
    laws.gradients_agree(found, expected, {0: "x"})


# 3.6 ------------------------------------------------------------------------------------------------------------------


def gap(student, found, expected, given):
    """The gap `found` is the reference's, or the one that the student's own dropout has, as long as that is one."""
    x, keep, p, order, permute_mask = given
    moved = keep[:, order] if permute_mask else keep
    got = expect(found, say("the gap for permute_mask={value}", value=permute_mask)).is_number()
    if not abs(got.value - expected) <= 1e-4 * expected + 1e-6:
        own = laws.commutation_gap(
            lambda x: student.dropout_with_mask(x, keep, p), lambda x: student.dropout_with_mask(x, moved, p), x, order
        )
        if permute_mask or not own > 0:
            got.is_near(expected, 0)
        got.is_near(own, 1e-4 * own)


@number("3.6.1")
@weight(3)
@check(target="dropout_permutation_gap", read="#does-dropout-commute")
def gap_where_the_mask_stays(student, reference, probes):
    """the mask stays where it is: 24 in the table of the handout, then other numbers"""
    x = np.array([[[4, 6], [8, 2], [10, 12]]], dtype=np.float32)
    keep = np.array([[[1, 0], [1, 1], [0, 1]]], dtype=bool)
    table = [x, keep, 0.5, np.array([2, 0, 1]), False]
    other = [*dropout_probe(probes), 0.25, probes.permutation(K), False]
    expected = reference.dropout_permutation_gap(*other)
    # Both are asked before either is judged: a mistake that is named fits more than the table.
    found = [student.dropout_permutation_gap(*given) for given in (table, other)]
    gap(student, found[0], 24.0, table)
    gap(student, found[1], expected, other)


@number("3.6.2")
@weight(1.5)
@check(target="dropout_permutation_gap", after="gap_where_the_mask_stays", read="#does-dropout-commute")
def gap_where_the_mask_travels(student, probes):
    """the mask travels with the positions: 0"""
    given = [*dropout_probe(probes), 0.25, probes.permutation(K), True]
    gap(student, student.dropout_permutation_gap(*given), 0.0, given)


@number("3.6.3")
@weight(1)
@visibility("hidden")
@check(target="dropout_permutation_gap", after="gap_where_the_mask_stays", read="#conventions")
def gap_small(student, reference, probes):
    """one sequence, one position, and the inputs stay as they are"""

    def unchanged(function, *given):
        _, afterwards = function.call_keeping_inputs(*given)
        laws.inputs_stay("x keep", given, afterwards)
        laws.inputs_stay("permutation", given[3:4], afterwards[3:4])

    for n, k in ((1, 4), (N, 1)):
        given = [*dropout_probe(probes, n, k), 0.75, probes.permutation(k), False]
        expected = reference.dropout_permutation_gap(*given)
        gap(student, student.dropout_permutation_gap(*given), expected, given)
    given = [*dropout_probe(probes), 0.75, probes.permutation(K), True]
    composition.unless_earlier_part(
        lambda: unchanged(student.dropout_permutation_gap, *given),
        lambda: unchanged(student.dropout_with_mask, *given[:3]),
        "the inputs of the gap",
    )


@number("3.6.4")
@weight(0.5)
@check(target="dropout_permutation_gap", after="gap_where_the_mask_stays", read="#does-dropout-commute")
def gap_is_a_float(student, probes):
    """a Python float"""
    got = student.dropout_permutation_gap(*dropout_probe(probes), 0.25, probes.permutation(K), False)
    if not isinstance(got, float):
        raise Mismatch(say("The gap is {kind}, expected a Python float.", kind=kind(got)))


# 3.7 ------------------------------------------------------------------------------------------------------------------


def predictions(student, reference, probes, names):
    """Entries of EQUIVARIANT against what is measured.

    Measured on the reference: a prediction is about the operation as the handout has it. A mistake in the student's own
    attention, or an operation that was changed, neither costs points here nor earns any.
    """
    # One cycle through an odd number of positions commutes neither with reversing nor with sorting them.
    x, order = probes.normal(2, 5, 6), probes.permutation(5)
    measured = {}
    for name in names:
        operation = reference.Operation(name)
        size = np.abs(operation(x)).max()
        measured[name] = laws.commutation_gap(operation, operation, x, order) / size
    said = student.EQUIVARIANT.value()
    if not isinstance(said, dict):
        raise Mismatch(say("EQUIVARIANT is no dict; expected one with True or False for each operation."))
    for name, gap in measured.items():
        if said.get(name) is None:
            raise Mismatch(say('"{name}" is not answered yet.', name=name))
        if not isinstance(said[name], bool):
            raise Mismatch(say('The entry for "{name}" is not True or False.', name=name))
        if said[name] is not bool(gap < 1e-6):
            raise Mismatch(predicted_wrongly(name, said[name], gap))


def predicted_wrongly(name, said, gap):
    """What a prediction says, and what is measured."""
    if not said:
        return say('"{name}" is predicted as False; measured, F(Px) and P F(x) agree.', name=name)
    return say(
        '"{name}" is predicted as True; measured, F(Px) and P F(x) differ by {gap} % of the largest output.',
        name=name,
        gap=f"{100 * gap:.2g}",
    )


@number("3.7.1")
@weight(2)
@check(target="EQUIVARIANT", read="#predict-then-measure")
def predictions_attention(student, reference, probes):
    """predictions: one head, joined heads, multi-head attention, causal attention"""
    names = ("attention head", "joined heads", "multi-head attention", "causal attention")
    predictions(student, reference, probes, names)


@number("3.7.2")
@weight(2)
@check(target="EQUIVARIANT", read="#predict-then-measure")
def predictions_each_alone(student, reference, probes):
    """predictions: what works on each position alone, with and without knowing its number"""
    alone = ("feed-forward", "layer norm", "dropout in eval mode")
    predictions(student, reference, probes, (*alone, "scale of its own per row", "position codes added"))


@number("3.7.3")
@weight(2)
@check(target="EQUIVARIANT", read="#predict-then-measure")
def predictions_mixing(student, reference, probes):
    """predictions: what mixes the positions or moves them"""
    mixing = ("each feature normalised over the positions", "mean over the positions, copied to each")
    ordered = ("each feature sorted over the positions", "running sum over the positions", "sequence reversed")
    predictions(student, reference, probes, (*mixing, *ordered))


@number("3.7.4")
@weight(2)
@check(target="EQUIVARIANT", after="predictions_attention", read="#predict-then-measure")
def predictions_chains(student, reference, probes):
    """predictions: residual sum, encoder block, encoder stack"""
    predictions(student, reference, probes, ("residual sum", "encoder block", "encoder stack"))


@number("3.7.5")
@weight(1)
@check(
    target="Operation",
    after=("block_reads_and_digests", "stack_values"),
    read="#predict-then-measure",
)
def own_operations_commute(student, probes):
    """each operation by itself, made of your own classes: from one head to the stack"""
    earlier = ("attention head", "joined heads", "multi-head attention")
    x, order = probes.normal(2, 5, 6), probes.permutation(5)
    for name in (*earlier, "feed-forward", "residual sum", "layer norm", "encoder block", "encoder stack"):
        operation = student.Operation(name)
        try:
            laws.permutation_equivariant(operation, x, order, say('the output of "{name}"', name=name))
        except Mismatch as finding:
            if name in earlier or not agree(operation(x), operation(x)):
                # Everything after it inherits a mistake of Lab 1 or 2, or dropout that stays on, which 3.3 judges.
                raise NeedsReview(f'"{name}" fails already: {finding}') from finding
            raise


# 3.8 ------------------------------------------------------------------------------------------------------------------


@number("3.8.1")
@weight(2)
@tags("question")
@check(target="ANSWERS", local=False, read="#position-wise")
def answer_position_wise(student, reference, questions):
    """what position-wise means"""
    concept.judge(questions, "position-wise", student, reference)


@number("3.8.2")
@weight(2)
@tags("question")
@check(target="ANSWERS", local=False, read="#layernorm-axis")
def answer_layernorm_axis(student, reference, questions):
    """how many means a layer norm computes"""
    concept.judge(questions, "layernorm-axis", student, reference)


@number("3.8.3")
@weight(2)
@tags("question")
@check(target="ANSWERS", local=False, read="#dropout-identity")
def answer_dropout_identity(student, reference, questions):
    """dropout, and an identity that is exact"""
    concept.judge(questions, "dropout-identity", student, reference)
