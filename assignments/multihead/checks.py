"""The checks of Lab 2. Order, names and numbers are what students see; points per section stand in lab.toml.

Where a check asks the reference for an object, it asks before it makes one of the student's: what the reference is asked is
then the same in every check, and can be recorded for the student's copy.
"""

import numpy as np
from gradescope_utils.autograder_utils.decorators import number, tags, visibility, weight

from autograder import laws, rules
from autograder import questions as concept
from autograder.check import Mismatch, NeedsReview, check, expect, expect_error
from autograder.composition import (
    depends_on_parts,
    equals_reference_or_own_parts,
    needs_right,
    unless_earlier_part,
    value_or_review,
)
from autograder.language import say
from autograder.sandbox.proxy import NoAnswer
from autograder.tensors import agree

OUTPUT = "sequence reader feature"
POSITIONS = "sequence position feature"
SPLIT = "sequence head position feature"
H, M, DH = 3, 6, 4  # beside N = 2, K = 5 and 7: all sizes differ, and H·Dh is not M


# 2.1 ------------------------------------------------------------------------------------------------------------------


@number("2.1.1")
@weight(2)
@check(target="concat_heads", read="#concat-heads")
def concat_example(student):
    """the table of the handout"""
    first = np.array([[[1, 2], [3, 4], [5, 6]]], dtype=np.float32)
    joined = [[[1, 2, 10, 20], [3, 4, 30, 40], [5, 6, 50, 60]]]
    expect(student.concat_heads([first, first * 10]), axes=POSITIONS).equals(np.array(joined, dtype=np.float32))


@number("2.1.2")
@weight(6)
@check(target="concat_heads", read="#concat-heads")
def concat_values(student, reference, probes):
    """three heads, joined at every position, head 0 first"""
    heads = [probes.normal(2, 5, DH) for _ in range(H)]
    expected = reference.concat_heads(heads)
    expect(student.concat_heads(heads), axes=POSITIONS).equals(expected)


@number("2.1.3")
@weight(2)
@check(target="concat_heads", after="concat_values", read="#concat-heads")
def joining_reorders(student, probes):
    """joining commutes with reordering: other rows, the same row for each position"""
    heads = probes.normal(2, 5, H * DH)
    laws.permutation_equivariant(
        lambda x: student.concat_heads(list(np.split(x, H, axis=-1))), heads, probes.permutation(5), "the joined heads"
    )


@number("2.1.4")
@weight(1)
@check(target="concat_heads", after="concat_values", read="#as-in-lab-1")
def concat_leaves_heads_alone(student, probes):
    """the heads are not changed"""
    heads = [probes.normal(2, 5, DH) for _ in range(H)]
    _, afterwards = student.concat_heads.call_keeping_inputs(heads)
    for h, before in enumerate(heads):
        expect(afterwards[0][h], say("head {h} after the call", h=h)).equals(before, tolerance=0.0)


@number("2.1.5")
@weight(2)
@visibility("hidden")
@check(target="concat_heads", after="concat_values", read="#as-in-lab-1")
def concat_small(student, reference, probes):
    """one sequence, one position, one head, one feature"""
    for n, k, heads, width in ((1, 5, 3, 4), (2, 1, 3, 4), (2, 5, 1, 4), (2, 5, 3, 1)):
        given = [probes.normal(n, k, width) for _ in range(heads)]
        expect(student.concat_heads(given), axes=POSITIONS).equals(reference.concat_heads(given))


@number("2.1.6")
@weight(1)
@visibility("hidden")
@check(target="concat_heads", after="concat_values", read="#as-in-lab-1")
def concat_in_float64(student, probes):
    """float64 in, float64 out"""
    heads = [probes.normal(2, 5, DH).astype(np.float64) / 3 for _ in range(H)]
    expect(student.concat_heads(heads), axes=POSITIONS).has_dtype("float64").equals(np.concatenate(heads, axis=-1))


# 2.2 ------------------------------------------------------------------------------------------------------------------


@number("2.2.1")
@weight(2)
@check(target="split_heads", read="#split-heads")
def split_example(student):
    """the table of the handout, backwards"""
    joined = np.array([[[1, 2, 10, 20], [3, 4, 30, 40], [5, 6, 50, 60]]], dtype=np.float32)
    heads = [[[[1, 2], [3, 4], [5, 6]], [[10, 20], [30, 40], [50, 60]]]]
    expect(student.split_heads(joined, 2), axes=SPLIT).equals(np.array(heads, dtype=np.float32))


@number("2.2.2")
@weight(7)
@check(target="split_heads", read="#split-heads")
def split_values(student, reference, probes):
    """each head gets its own features of every position"""
    x = probes.normal(2, 5, H * DH)
    expected = reference.split_heads(x, H)
    expect(student.split_heads(x, H), axes=SPLIT).equals(expected)


@number("2.2.3")
@weight(4)
@check(target="split_heads", after="split_values", read="#split-heads")
def split_refuses(student, probes):
    """ValueError where the features cannot be shared out evenly"""
    for features, heads in ((10, 4), (3, 4)):
        x = probes.normal(2, 5, features)
        when = say("where {features} features meet {heads} heads", features=features, heads=heads)
        expect_error("ValueError", lambda x=x, heads=heads: student.split_heads(x, heads), when)


@number("2.2.4")
@weight(1)
@check(target="split_heads", after="split_values", read="#as-in-lab-1")
def split_leaves_x_alone(student, probes):
    """x is not changed"""
    x = probes.normal(2, 5, H * DH)
    _, afterwards = student.split_heads.call_keeping_inputs(x, H)
    laws.inputs_stay("x", [x], afterwards)


@number("2.2.5")
@weight(2)
@visibility("hidden")
@check(target="split_heads", after="split_values", read="#as-in-lab-1")
def split_small(student, reference, probes):
    """one sequence, one position, one head, one feature for each head"""
    for n, k, heads, width in ((1, 5, 3, 4), (2, 1, 3, 4), (2, 5, 1, 4), (2, 5, 3, 1)):
        x = probes.normal(n, k, heads * width)
        expect(student.split_heads(x, heads), axes=SPLIT).equals(reference.split_heads(x, heads))


@number("2.2.6")
@weight(1)
@visibility("hidden")
@check(target="split_heads", after="split_values", read="#as-in-lab-1")
def split_in_float64(student, reference, probes):
    """float64 in, float64 out"""
    x = probes.normal(2, 5, H * DH).astype(np.float64) / 3
    expect(student.split_heads(x, H), axes=SPLIT).has_dtype("float64").equals(reference.split_heads(x, H))


@number("2.2.7")
@weight(1)
@visibility("hidden")
@check(target="split_heads", after="split_values", read="#split-heads")
def split_of_a_transposed_tensor(student, reference, probes):
    """x need not be contiguous in memory"""
    stored = probes.normal(2, H * DH, 5)
    # Arrays arrive contiguous, so the tensor is made over there: the weight of a convolution has three axes.
    holder = student.module("torch.nn").Conv1d(H * DH, 2, 5, bias=False).load({"weight": stored})
    expected = reference.split_heads(stored.transpose(0, 2, 1), H)
    expect(student.split_heads(holder.weight.mT, H), axes=SPLIT).equals(expected)


@number("2.2.8")
@weight(2)
@visibility("hidden")
@check(target="split_heads", after="split_values", read="#as-in-lab-1")
def split_gradients(student, reference, probes):
    """gradients reach x"""
    x, cotangent = probes.normal(2, 5, H * DH), probes.normal(2, H, 5, DH)
    expected = reference.split_heads.gradients(x, H, wrt=(0,), cotangent=cotangent)
    found = student.split_heads.gradients(x, H, wrt=(0,), cotangent=cotangent)
    laws.gradients_agree(found, expected, {0: "x"})


# 2.3 ------------------------------------------------------------------------------------------------------------------


def layer_parameters(probes, heads=H):
    """Distinct parameters for a MultiHeadAttention(heads, M, DH), by name."""
    shapes = {"linear_mult__weight": (M, heads * DH), "linear_mult__bias": (M,)}
    for h in range(heads):
        for part in "qkv":
            shapes |= {f"heads__{h}__{part}__weight": (DH, M), f"heads__{h}__{part}__bias": (DH,)}
    return probes.parameters(**shapes)


def what_found(h):
    """The output of a head, in words."""
    return say("what head {h} found", h=h)


def read_by_heads(layer, inputs, heads=H):
    """What each of the student's own heads, made in Lab 1, finds in these inputs."""
    shape = (len(inputs[0]), inputs[0].shape[1], DH)
    return [expect(layer.heads[h](*inputs), what_found(h)).has_shape(*shape).value for h in range(heads)]


def layer_output(student, reference, probes, inputs, heads=H):
    """A layer's output against the reference, or against the student's own heads, joined and projected."""
    parameters = layer_parameters(probes, heads)
    expected = reference.MultiHeadAttention(heads, M, DH).load(parameters)(*inputs)
    layer = student.MultiHeadAttention(heads, M, DH).load(parameters)
    # That the heads run at all is settled in the first check of 2.3.
    got = value_or_review(lambda: layer(*inputs), lambda: read_by_heads(layer, inputs, heads), "a head of attention.py")

    def own_parts():
        found = read_by_heads(layer, inputs, heads)
        plain = layer.linear_mult(np.concatenate(found, axis=-1))
        same = isinstance(got, np.ndarray) and isinstance(plain, np.ndarray) and agree(got, plain)
        return plain if same else layer.linear_mult(student.concat_heads(found))

    def alive():
        uses_its_parts(layer, parameters, inputs, heads)

    equals_reference_or_own_parts(got, expected, own_parts, alive, "the output", OUTPUT)


def same(got, expected):
    """Whether a value that came back is a tensor and agrees."""
    return isinstance(got, np.ndarray) and agree(got, expected)


def uses_its_parts(layer, parameters, inputs, heads):
    """The output depends on each head, whatever Lab 1 made of it, and on the projection: it is no constant."""
    parts = [*(f"heads.{h}" for h in range(heads)), "linear_mult.weight", "linear_mult.bias"]
    depends_on_parts(layer, parameters, lambda: layer(*inputs), parts)


def a_layer(student, probes):
    """A MultiHeadAttention of the student's with distinct parameters everywhere."""
    return student.MultiHeadAttention(H, M, DH).load(layer_parameters(probes))


@number("2.3.1")
@weight(2)
@check(target="MultiHeadAttention", read="#multi-head-attention")
def layer_has_its_parts(student, probes):
    """as many heads as asked for, and a projection of the right size"""
    layer = a_layer(student, probes)
    known = {name.split(".")[1] for name in layer.parameters() if name.startswith("heads.")}
    if len(known) != H:
        raise Mismatch(say("There are {n} heads, expected {wanted}.", n=len(known), wanted=H))
    x = probes.normal(2, 5, M)
    read_by_heads(layer, (x, x, x))
    joined = probes.normal(2, 5, H * DH)
    made = say("what `{name}` makes of {shape}", name="linear_mult", shape=joined.shape)
    expect(layer.linear_mult(joined), made, POSITIONS).has_shape(2, 5, M)


@number("2.3.2")
@weight(12)
@check(target="MultiHeadAttention", after="layer_has_its_parts", read="#every-head-has-its-say")
def layer_values(student, reference, probes, source):
    """every head reads, in order, and one projection mixes what they found"""
    x, found = probes.normal(2, 5, M), [probes.normal(2, 5, DH) for _ in range(H)]
    joined = reference.concat_heads(found)

    def joins():
        return not source.lines_calling("MultiHeadAttention", ["concat_heads"]) or same(
            student.concat_heads(found), joined
        )

    needs_right("concat_heads", joins, lambda: layer_output(student, reference, probes, (x, x, x)))


@number("2.3.3")
@weight(5)
@check(target="MultiHeadAttention", after="layer_values", read="#every-head-has-its-say")
def layer_reads_another_sequence(student, reference, probes):
    """query, key and value arrive where they belong, readers and sources being different sequences"""
    inputs = (probes.normal(2, 5, M), probes.normal(2, 7, M), probes.normal(2, 7, M))
    layer_output(student, reference, probes, inputs)


@number("2.3.4")
@weight(5)
@check(target="MultiHeadAttention", after="layer_values", read="#the-mask-reaches-every-head")
def layer_passes_the_mask(student, reference, probes):
    """the mask reaches every head"""
    x = probes.normal(2, 5, M)
    layer_output(student, reference, probes, (x, x, x, probes.mask(2, 5, 5)))


@number("2.3.5")
@weight(2)
@visibility("hidden")
@check(target="MultiHeadAttention", after="layer_passes_the_mask", read="#the-mask-reaches-every-head")
def layer_mask_broadcasts(student, reference, probes):
    """a mask that only broadcasts: (1, 1, K), (N, 1, K), (Kq, K)"""
    x, mask = probes.normal(2, 5, M), probes.mask(2, 5, 5)
    for smaller in (mask[:1, :1], mask[:, :1], mask[0]):
        layer_output(student, reference, probes, (x, x, x, smaller))


@number("2.3.6")
@weight(3)
@check(target="MultiHeadAttention", after="layer_values", read="#what-to-try-it-on")
def layer_reorders(student, probes):
    """the layer commutes with reordering the positions, as each of its heads does"""
    layer, x, order = a_layer(student, probes), probes.normal(2, 5, M), probes.permutation(5)

    def commutes(module, name):
        laws.permutation_equivariant(lambda x: module(x, x, x), x, order, name)

    def joined(x):
        return student.concat_heads([layer.heads[h](x, x, x) for h in range(H)])

    def parts():
        for h in range(H):
            commutes(layer.heads[h], what_found(h))
        laws.permutation_equivariant(joined, x, order, "the joined heads")

    unless_earlier_part(lambda: commutes(layer, "what the layer makes"), parts, "reordering the positions")


@number("2.3.7")
@weight(1)
@check(target="MultiHeadAttention", after="layer_values", read="#as-in-lab-1")
def layer_leaves_inputs_alone(student, probes):
    """query, key, value and mask are not changed"""
    layer, given = a_layer(student, probes), [*(probes.normal(2, 5, M) for _ in range(3)), probes.mask(2, 5, 5)]

    def unchanged(module):
        _, afterwards = module.call_keeping_inputs(*given)
        laws.inputs_stay("query key value mask", given, afterwards)

    unless_earlier_part(lambda: unchanged(layer), lambda: unchanged(layer.heads[0]), "the layer's inputs")


@number("2.3.8")
@weight(3)
@check(target="MultiHeadAttention", after="layer_values", read="#rules")
def layer_is_not_ready_made(student, probes, source):
    """the ready-made attention of torch is not used"""
    layer, x = a_layer(student, probes), probes.normal(2, 5, M)
    within_a_head = layer.heads[0].operations(x, x, x)  # what happens there is a matter of Lab 1
    operations = {name: count for name, count in layer.operations(x, x, x).items() if name not in within_a_head}
    rules.not_ready_made(source, "MultiHeadAttention", rules.ATTENTION, "attention", operations)


@number("2.3.9")
@weight(2)
@visibility("hidden")
@check(target="MultiHeadAttention", after="layer_values", read="#as-in-lab-1")
def layer_small(student, reference, probes):
    """one sequence, one position, one head"""
    for n, k, heads in ((1, 5, H), (2, 1, H), (2, 5, 1)):
        x = probes.normal(n, k, M)
        layer_output(student, reference, probes, (x, x, x), heads)


@number("2.3.10")
@weight(1)
@visibility("hidden")
@check(target="MultiHeadAttention", after="layer_reads_another_sequence", read="#as-in-lab-1")
def layer_one_reader_one_source(student, reference, probes):
    """one reader of many sources, many readers of one source"""
    for readers, sources in ((1, 7), (5, 1)):
        inputs = (probes.normal(2, readers, M), probes.normal(2, sources, M), probes.normal(2, sources, M))
        layer_output(student, reference, probes, inputs)


@number("2.3.11")
@weight(2)
@visibility("hidden")
@check(target="MultiHeadAttention", after="layer_values", read="#as-in-lab-1")
def layer_in_float64(student, probes):
    """float64 parameters and inputs give float64"""
    parameters = {name: array.astype(np.float64) for name, array in layer_parameters(probes).items()}
    layer, x = student.MultiHeadAttention(H, M, DH).load(parameters), probes.normal(2, 5, M).astype(np.float64)

    def keeps_float64(module, width):
        expect(module(x, x, x)).has_shape(2, 5, width).has_dtype("float64")

    def parts():
        for h in range(H):
            keeps_float64(layer.heads[h], DH)
        joined = student.concat_heads([layer.heads[h](x, x, x) for h in range(H)])
        expect(joined, "the joined heads").has_dtype("float64")

    unless_earlier_part(lambda: keeps_float64(layer, M), parts, "float64")


@number("2.3.12")
@weight(4)
@visibility("hidden")
@check(target="MultiHeadAttention", after="layer_values", read="#as-in-lab-1")
def layer_learns(student, probes):
    """gradients reach every head and the projection"""
    layer, x, cotangent = a_layer(student, probes), probes.normal(2, 5, M), probes.normal(2, 5, M)
    projection, parts = ("linear_mult.weight", "linear_mult.bias"), ("q.weight", "k.weight", "v.weight")
    names = (*projection, *(f"heads.{h}.{part}" for h in range(H) for part in parts))
    found = layer.gradients(x, x, x, wrt=names, cotangent=cotangent)
    laws.gradients_reach(found, dict(zip(projection, projection)))
    for h in range(H):
        for part in parts:
            name = f"heads.{h}.{part}"
            if not laws.reached(found[name]) and not head_learns(layer.heads[h], part, x, probes):
                raise NeedsReview(f"within a head of attention.py no gradient reaches {part}")
            laws.gradients_reach(found, {name: name})


def head_learns(head, part, x, probes):
    """Whether a head of the student's, made in Lab 1, lets gradients through to one of its own parameters."""
    try:
        return laws.reached(head.gradients(x, x, x, wrt=(part,), cotangent=probes.normal(2, 5, DH))[part])
    except NoAnswer:
        return False


# 2.4 ------------------------------------------------------------------------------------------------------------------


def same_gap(got, expected, module):
    """An instrument reads right: below 1e-5 where the module commutes, within 1 % where it does not."""
    reading = expect(got, say("the gap of {module}", module=module)).is_number()
    if expected < 1e-5:
        reading.at_least(0).at_most(1e-5)
    else:
        reading.is_near(expected, 0.01 * expected)


@number("2.4.1")
@weight(2)
@check(target="permutation_gap", read="#permutation-gap")
def gap_example(student):
    """the example of the handout comes out as 1, and as 0.5 with the permutation [1, 2, 0]"""
    x = np.array([[[3], [0], [6]]], dtype=np.float32)
    expected = (([2, 0, 1], 1), ([1, 2, 0], 0.5))
    # All questions come before the first verdict: one number alone may be what many mistakes give.
    found = [student.permutation_gap(student.RunningMean(), x, np.array(order)) for order, _ in expected]
    for got, (order, gap) in zip(found, expected):
        same_gap(got, gap, say("{module} with the permutation {order}", module="RunningMean", order=order))


@number("2.4.2")
@weight(5)
@check(target="permutation_gap", read="#permutation-gap")
def gap_values(student, reference, probes):
    """the size of the gap, for two modules that do not commute"""
    spiked, order = probes.normal(2, 5, M), probes.permutation(5)
    spiked[1, 3, 2] = 9  # so that max|x|, max|F(x)| and max|F(Px)| are three different things
    below = spiked - 20  # so that a maximum that forgets the sign is another one
    # Both signs, so that a largest difference that forgets the sign is wrong at one of them, whatever is drawn.
    cases = (("RunningMean", spiked), ("RunningMean", -spiked), ("AddsPlace", below))
    expected = [reference.permutation_gap(getattr(reference, name)(), x, order) for name, x in cases]
    found = [student.permutation_gap(getattr(student, name)(), x, order) for name, x in cases]
    for got, gap, (name, _) in zip(found, expected, cases):
        same_gap(got, gap, name)


@number("2.4.3")
@weight(4)
@check(target="permutation_gap", after="gap_values", read="#permutation-gap")
def gap_of_what_commutes(student, probes):
    """no gap where the module commutes: an MLP on each position"""
    module = student.DroppingMLP(M).eval()
    same_gap(student.permutation_gap(module, probes.normal(2, 5, M), probes.permutation(5)), 0, "DroppingMLP")


@number("2.4.4")
@weight(2)
@check(target="permutation_gap", after="gap_of_what_commutes", read="#leave-the-module-as-you-found-it")
def gap_in_eval_mode(student, probes):
    """dropout does not count: it measures in eval mode, whatever mode the module is in"""
    module = student.DroppingMLP(M).train()
    same_gap(student.permutation_gap(module, probes.normal(2, 5, M), probes.permutation(5)), 0, "DroppingMLP")


@number("2.4.5")
@weight(2)
@check(target="permutation_gap", after="gap_values", read="#leave-the-module-as-you-found-it")
def gap_puts_the_mode_back(student, probes):
    """afterwards the module is in the mode it came in, train or eval"""
    for mode, left_in in (
        (True, say("A module that came in train mode was left in the other one.")),
        (False, say("A module that came in eval mode was left in the other one.")),
    ):
        module = student.DroppingMLP(M).train(mode)
        student.permutation_gap(module, probes.normal(2, 5, M), probes.permutation(5))
        if module.training.value() is not mode:
            raise Mismatch(left_in)


@number("2.4.6")
@weight(1)
@check(target="permutation_gap", after="gap_values", read="#leave-the-module-as-you-found-it")
def gap_leaves_x_alone(student, probes):
    """x and the permutation are not changed"""
    x, order = probes.normal(2, 5, M), probes.permutation(5)
    _, afterwards = student.permutation_gap.call_keeping_inputs(student.RunningMean(), x, order)
    laws.inputs_stay("x permutation", [x, order], afterwards[1:])


@number("2.4.7")
@weight(1)
@check(target="permutation_gap", after="gap_values", read="#permutation-gap")
def gap_is_a_float(student, probes):
    """a Python float"""
    got = student.permutation_gap(student.AddsPlace(), probes.normal(2, 5, M), probes.permutation(5))
    if not isinstance(got, float):
        expect(got, "the gap").is_number()
        raise Mismatch(say("The gap is a tensor or an integer, expected a Python float."))


@number("2.4.8")
@weight(1)
@visibility("hidden")
@check(target="permutation_gap", after="gap_values", read="#permutation-gap")
def gap_small(student, reference, probes):
    """one sequence, two positions, one position, other widths"""
    for n, k, width in ((1, 6, 3), (3, 2, 1), (2, 1, 4)):
        x, order = probes.normal(n, k, width), probes.permutation(k)
        expected = reference.permutation_gap(reference.RunningMean(), x, order)
        module = say("{module} at K = {k}", module="RunningMean", k=k)
        same_gap(student.permutation_gap(student.RunningMean(), x, order), expected, module)


# 2.5 ------------------------------------------------------------------------------------------------------------------


@number("2.5.1")
@weight(2)
@tags("question")
@check(target="ANSWERS", local=False, read="#concat-axis")
def answer_concat_axis(student, reference, questions):
    """where heads are joined"""
    concept.judge(questions, "concat-axis", student, reference)


@number("2.5.2")
@weight(2)
@tags("question")
@check(target="ANSWERS", local=False, read="#number-of-heads")
def answer_number_of_heads(student, reference, questions):
    """reordering and the number of heads"""
    concept.judge(questions, "number-of-heads", student, reference)


@number("2.5.3")
@weight(2)
@tags("question")
@check(target="ANSWERS", local=False, read="#head-roles")
def answer_head_roles(student, reference, questions):
    """the role of a head"""
    concept.judge(questions, "head-roles", student, reference)


# 2.6 ------------------------------------------------------------------------------------------------------------------


def fused_parameters(parameters, heads=H):
    """The parameters of a layer with separate heads, as the fused one holds them: head 0 first."""
    fused = {name: array for name, array in parameters.items() if name.startswith("linear_mult.")}
    for name in ("q.weight", "q.bias", "k.weight", "k.bias", "v.weight", "v.bias"):
        fused[name] = np.concatenate([parameters[f"heads.{h}.{name}"] for h in range(heads)])
    return fused


def a_fused_layer(student, probes, heads=H):
    """A FusedMultiHeadAttention of the student's with distinct parameters everywhere."""
    return student.FusedMultiHeadAttention(heads, M, DH).load(fused_parameters(layer_parameters(probes, heads), heads))


def fused_output(student, reference, probes, inputs, heads=H):
    """A fused layer's output against the reference, or against the student's own MultiHeadAttention; in the inputs' dtype."""
    parameters = {name: array.astype(inputs[0].dtype) for name, array in layer_parameters(probes, heads).items()}
    expected = reference.MultiHeadAttention(heads, M, DH).load(parameters)(*inputs)
    fused = student.FusedMultiHeadAttention(heads, M, DH).load(fused_parameters(parameters, heads))
    own = []

    def own_parts():
        own.append(student.MultiHeadAttention(heads, M, DH).load(parameters))
        return own[0](*inputs)

    def alive():
        uses_its_parts(own[0], parameters, inputs, heads)

    equals_reference_or_own_parts(fused(*inputs), expected, own_parts, alive, "the output", OUTPUT)
    return fused


@number("2.6.1")
@weight(2.5)
@check(target="FusedMultiHeadAttention", read="#fused-multi-head-attention")
def fused_values(student, reference, probes, source):
    """the same output as MultiHeadAttention with the same weights"""
    x, wide = probes.normal(2, 5, M), probes.normal(2, 5, H * DH)
    heads = reference.split_heads(wide, H)

    def splits():
        return not source.lines_calling("FusedMultiHeadAttention.forward", ["split_heads"]) or same(
            student.split_heads(wide, H), heads
        )

    needs_right("split_heads", splits, lambda: fused_output(student, reference, probes, (x, x, x)))


@number("2.6.2")
@weight(1)
@check(target="FusedMultiHeadAttention", after="fused_values", read="#fused-multi-head-attention")
def fused_reads_another_sequence(student, reference, probes):
    """readers and sources being different sequences"""
    inputs = (probes.normal(2, 5, M), probes.normal(2, 7, M), probes.normal(2, 7, M))
    fused_output(student, reference, probes, inputs)


@number("2.6.3")
@weight(0.5)
@check(target="FusedMultiHeadAttention", after="fused_values", read="#the-mask-has-no-head-axis")
def fused_mask(student, reference, probes):
    """with a mask"""
    x = probes.normal(2, 5, M)
    fused_output(student, reference, probes, (x, x, x, probes.mask(2, 5, 5)))


@number("2.6.4")
@weight(0.5)
@visibility("hidden")
@check(target="FusedMultiHeadAttention", after="fused_mask", read="#the-mask-has-no-head-axis")
def fused_mask_broadcasts(student, reference, probes):
    """as many sequences as heads, and a mask that only broadcasts: (1, 1, K), (N, 1, K), (Kq, K)"""
    x, y, mask = probes.normal(H, 5, M), probes.normal(H, 7, M), probes.mask(H, 5, 7)
    for smaller in (mask, mask[:1, :1], mask[:, :1], mask[0]):
        fused_output(student, reference, probes, (x, y, y, smaller))


@number("2.6.5")
@weight(1.5)
@check(target="FusedMultiHeadAttention", after="layer_has_its_parts", read="#loading-heads")
def fused_loads_heads(student, probes):
    """load_heads takes over all weights and biases, head 0 first"""
    parameters = layer_parameters(probes)
    layer = student.MultiHeadAttention(H, M, DH).load(parameters)
    fused = student.FusedMultiHeadAttention(H, M, DH)
    fused.load_heads(layer)
    found = fused.parameters()
    for name, expected in fused_parameters(parameters).items():
        if name not in found:
            raise Mismatch(say("FusedMultiHeadAttention has no parameter {name}.", name=name))
        expect(found[name], say("{name} after load_heads", name=name)).equals(expected)


@number("2.6.6")
@weight(0.5)
@check(target="FusedMultiHeadAttention", after="fused_loads_heads", read="#loading-heads")
def fused_keeps_copies(student, probes):
    """what is loaded are copies: the other layer may go on learning"""
    layer, fused = a_layer(student, probes), student.FusedMultiHeadAttention(H, M, DH)
    fused.load_heads(layer)
    before = fused.parameters()
    layer.load(layer_parameters(probes))
    for name, array in fused.parameters().items():
        expect(array, say("{name} after MultiHeadAttention changed", name=name)).equals(before[name], tolerance=0.0)


@number("2.6.7")
@weight(1)
@check(target="FusedMultiHeadAttention", after="fused_values", read="#rules")
def fused_without_a_loop(student, probes, source):
    """no Python loop in forward, no hidden one either"""

    def count(heads):
        x, y = probes.normal(heads + 1, heads + 2, M), probes.normal(heads + 1, heads + 3, M)
        layer, mask = a_fused_layer(student, probes, heads), probes.mask(heads + 1, heads + 2, heads + 3)
        return rules.operations_of(lambda: layer.operations(x, y, y), lambda: layer.operations(x, y, y, mask))

    rules.no_loop(source, "FusedMultiHeadAttention.forward", count, lengths=(2, 7), letter="H")


@number("2.6.8")
@weight(0.5)
@check(target="FusedMultiHeadAttention", after="fused_values", read="#rules")
def fused_is_not_ready_made(student, probes, source):
    """the ready-made attention of torch is not used"""
    x = probes.normal(2, 5, M)
    operations = a_fused_layer(student, probes).operations(x, x, x)
    rules.not_ready_made(source, "FusedMultiHeadAttention", rules.ATTENTION, "attention", operations)


@number("2.6.9")
@weight(0.5)
@visibility("hidden")
@check(target="FusedMultiHeadAttention", after="fused_values", read="#as-in-lab-1")
def fused_small(student, reference, probes):
    """one sequence, one position, one head"""
    for n, k, heads in ((1, 5, H), (2, 1, H), (2, 5, 1)):
        x, wide = probes.normal(n, k, M), probes.normal(n, k, heads * DH)
        unless_earlier_part(
            lambda x=x, heads=heads: fused_output(student, reference, probes, (x, x, x), heads),
            lambda wide=wide, heads=heads: expect(student.split_heads(wide, heads)).has_shape(
                len(wide), heads, wide.shape[1], DH
            ),
            f"N = {n}, K = {k}, H = {heads}",
        )


@number("2.6.10")
@weight(0.5)
@visibility("hidden")
@check(target="FusedMultiHeadAttention", after="fused_values", read="#as-in-lab-1")
def fused_in_float64(student, reference, probes):
    """float32 in, float32 out; float64 in, float64 out, and as exact; inputs and mask stay as they are"""
    x, mask, wide = probes.normal(2, 5, M), probes.mask(2, 5, 5), np.zeros((2, 5, H * DH))

    def dtypes_stay():
        for dtype in (np.float32, np.float64):
            inputs = [x.astype(dtype) / 3] * 3  # thirds: float32 cannot hold them
            given = [*inputs, mask]
            got, afterwards = fused_output(student, reference, probes, inputs).call_keeping_inputs(*given)
            expect(got, axes=OUTPUT).has_dtype(np.dtype(dtype).name)
            laws.inputs_stay("query key value mask", given, afterwards)

    unless_earlier_part(
        dtypes_stay, lambda: expect(student.split_heads(wide, H), "split heads").has_dtype("float64"), "float64"
    )


@number("2.6.11")
@weight(0.5)
@visibility("hidden")
@check(target="FusedMultiHeadAttention", after="fused_values", read="#as-in-lab-1")
def fused_learns(student, probes):
    """gradients reach all of its weights"""
    x, names = probes.normal(2, 5, M), ("q.weight", "k.weight", "v.weight", "linear_mult.weight", "linear_mult.bias")
    fused, wide = a_fused_layer(student, probes), probes.normal(2, 5, H * DH)

    def learns():
        for mask in (None, probes.mask(2, 5, 5)):
            found = fused.gradients(x, x, x, mask, wrt=names, cotangent=probes.normal(2, 5, M))
            laws.gradients_reach(found, dict(zip(names, names)))

    def split_passes_on():
        found = student.split_heads.gradients(wide, H, wrt=(0,), cotangent=probes.normal(2, H, 5, DH))
        laws.gradients_reach(found, {0: "x"})

    unless_earlier_part(learns, split_passes_on, "gradients")


@number("2.6.12")
@weight(0.5)
@visibility("hidden")
@check(target="FusedMultiHeadAttention", after="fused_mask", read="#the-mask-has-no-head-axis")
def fused_hides_what_is_masked(student, probes):
    """a source that the mask hides has no influence, however low the other scores are; with no source left, finite numbers"""
    parameters, mask = fused_parameters(layer_parameters(probes)), probes.mask(2, 5, 7)
    # All scores lie far below 0: a masked source whose score is merely low would be the one that is read.
    parameters["q.bias"], parameters["k.bias"] = parameters["q.bias"] + 40, parameters["k.bias"] - 40
    x, y = probes.normal(2, 5, M), probes.normal(2, 7, M)
    mask[:, :, 4], mask[:, :, 1] = True, False
    fused = student.FusedMultiHeadAttention(H, M, DH).load(parameters)
    laws.masked_source_has_no_influence(lambda key, value: fused(x, key, value, mask), (y, y), source=4, by=1.5)
    mask[1, 2] = True
    expect(fused(x, y, y, mask), axes=OUTPUT).is_finite()
