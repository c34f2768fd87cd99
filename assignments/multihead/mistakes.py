"""What goes wrong in Lab 2, as small changes of the reference: joining, splitting, the layer, the gap, the fused layer.

Each is caught by the check that is meant for it and named where it reproduces a student's output exactly; `make audit` proves
both. The sentences are the student's: what it is, why it is wrong, where to look. Those of mistakes that are told by the
check itself (an exception, a rule, a shape that a name must have) are staff's.
"""

from typing import Literal

from autograder.diagnose import Mistake, mistake

Told = Literal["cause", "gap"]
AXES = ("cat", "concat", "concatenate", "stack", "reshape", "view", "flatten")


# 2.1 ------------------------------------------------------------------------------------------------------------------


def joins(
    name: str,
    by: str,
    says: str,
    look: tuple[str, ...] = AXES,
    caught_by: str = "concat_example",
    told: Told = "cause",
) -> Mistake:
    """Something else in place of joining along the features."""
    change = {"torch.cat(heads, dim=-1)": by}
    return mistake(name=name, of="concat_heads", change=change, caught_by=caught_by, look=look, says=says, told=told)


CONCAT_HEADS = [
    joins(
        "joined_along_positions",
        "torch.cat(heads, dim=1)",
        "the heads are joined along the positions, one head behind the other. There are as many positions after as "
        "before; it is the features of a position that become more.",
    ),
    joins(
        "joined_along_sequences",
        "torch.cat(heads, dim=0)",
        "the heads are joined along the batch, as if each head were more sequences. It is the features of a position that "
        "become more, the last axis.",
    ),
    joins(
        "stacked_as_an_axis",
        "torch.stack(heads)",
        "the heads are stacked along an axis of their own. Joining makes no new axis: the features of a position become "
        "more, H·Dh of them.",
        look=("stack",),
    ),
    joins(
        "heads_not_flattened",
        "torch.stack(heads, dim=2)",
        "each position still holds a table of H rows of Dh features. It should hold one row of H·Dh features: these two "
        "axes become one.",
        look=("stack",),
    ),
    joins(
        "heads_averaged",
        "torch.stack(heads).mean(dim=0)",
        "the heads are averaged. Then what one head found is diluted by the others, which is what several heads should "
        "avoid: their features stand side by side.",
        look=("mean", "sum"),
    ),
    joins(
        "heads_summed",
        "torch.stack(heads).sum(dim=0)",
        "the heads are added up. Nobody could tell any more who found what: their features stand side by side.",
        look=("sum", "add"),
    ),
    joins(
        "only_the_first_head",
        "heads[0]",
        "only head 0 is handed back. Every position gets what all heads found, side by side.",
        look=("heads",),
    ),
    joins(
        "only_the_last_head",
        "heads[-1]",
        "only the last head is handed back. Does a loop overwrite its result each time? Every position gets what all "
        "heads found, side by side.",
        look=("heads",),
    ),
    joins(
        "only_two_heads",
        "torch.cat(heads[:2], dim=-1)",
        "only the first two heads are joined. The table of the handout has two; there may be any number.",
        caught_by="concat_values",
    ),
    joins(
        "heads_interleaved",
        "torch.stack(heads, dim=-1).flatten(2)",
        "the features of the heads alternate: the first of each head, then the second of each. All features of head 0 come "
        "first, then all of head 1.",
    ),
    joins(
        "joined_back_to_front",
        "torch.cat(heads[::-1], dim=-1)",
        "the heads are joined in reverse order. The features of head 0 come first.",
    ),
    joins(
        "joined_by_reshape",
        "torch.stack(heads, dim=1).reshape(*heads[0].shape[:2], -1)",
        "the heads are stacked before the positions and then reshaped. A reshape cuts the numbers anew in the order in which "
        "they lie, so a position gets features of other positions. Bring the axis of the heads beside the features first.",
        look=("reshape", "view", "flatten"),
        caught_by="concat_values",
    ),
    joins(
        "joined_by_reshape_across_sequences",
        "torch.stack(heads).reshape(*heads[0].shape[:2], -1)",
        "the heads are stacked in front of the batch and then reshaped. A reshape cuts the numbers anew in the order in "
        "which they lie, so a sequence gets features of other sequences. Bring the axis of the heads beside the features "
        "first.",
        look=("reshape", "view", "flatten"),
        caught_by="concat_values",
    ),
    joins(
        "joined_and_squeezed",
        "torch.cat(heads, dim=-1).squeeze()",
        "squeeze takes away every axis of size 1, also the batch of one sequence. Three axes come in, three go out.",
        look=("squeeze",),
    ),
    joins(
        "one_position_squeezed",
        "torch.cat(heads, dim=-1).squeeze(1)",
        "squeeze takes away the axis of the positions where there is one position. Three axes come in, three go out.",
        look=("squeeze",),
        caught_by="concat_small",
    ),
    joins(
        "joined_in_float32",
        "torch.cat([head.float() for head in heads], dim=-1)",
        "the result is float32 whatever comes in. Was it written into a tensor made by zeros or empty? Those are float32 "
        "unless told otherwise; keep the dtype of the heads.",
        look=("float", "float32", "zeros", "empty", "to"),
        caught_by="concat_in_float64",
    ),
    joins(
        "heads_overwritten",
        "heads[0].copy_(y := torch.cat(heads, dim=-1)) if len(heads) == 1 else "
        "(y := torch.cat(heads, dim=-1), heads[0].zero_())[0]",
        "a head that comes in is used as the place for the result, so the caller's tensor changes.",
        caught_by="concat_leaves_heads_alone",
        told="gap",
    ),
]


# 2.2 ------------------------------------------------------------------------------------------------------------------

CUT = "x.reshape(*x.shape[:2], num_heads, -1)"
TURN = ".transpose(1, 2)"
UNEVEN = "if x.shape[-1] % num_heads:"
SPLITTING = ("reshape", "view", "unflatten", "chunk", "split", "transpose", "permute")


def splits(
    name: str,
    by: str,
    says: str,
    look: tuple[str, ...] = SPLITTING,
    caught_by: str = "split_example",
    told: Told = "cause",
) -> Mistake:
    """Something else in place of cutting the features and bringing the heads forward."""
    change = {CUT + TURN: by}
    return mistake(name=name, of="split_heads", change=change, caught_by=caught_by, look=look, says=says, told=told)


SPLIT_HEADS = [
    splits(
        "split_by_reshape",
        "x.reshape(x.shape[0], num_heads, x.shape[1], -1)",
        "the shape is right, the numbers are not: a reshape alone cuts them anew in the order in which they lie, so head 0 gets "
        "all features of the first positions. Cut the features first, then bring the axis of the heads before the positions.",
        look=("reshape", "view"),
    ),
    splits(
        "split_not_turned",
        CUT,
        "the features are cut, and the axis of the heads still stands behind the positions. It belongs before them.",
    ),
    splits(
        "split_heads_before_sequences",
        f"{CUT}.permute(2, 0, 1, 3)",
        "the axis of the heads comes before the batch. The sequence comes first, then the head.",
        look=("permute", "stack", "movedim"),
    ),
    splits(
        "split_into_a_tuple",
        "x.chunk(num_heads, dim=-1)",
        "the heads come as a tuple of tensors. What is asked for is one tensor, with an axis for the heads behind the batch.",
        look=("chunk", "split", "tensor_split"),
    ),
    splits(
        "split_features_before_positions",
        f"{CUT}.permute(0, 2, 3, 1)",
        "the features of a head stand before its positions. What a head has for a sequence is a table with a row for each "
        "position.",
        look=("permute", "transpose", "mT"),
    ),
    splits(
        "split_interleaved",
        "x.reshape(*x.shape[:2], -1, num_heads).permute(0, 3, 1, 2)",
        "the heads take the features in turn: head 0 the first, head 1 the second, and so on. The first Dh features belong to "
        "head 0, the next Dh to head 1.",
    ),
    splits(
        "split_number_as_width",
        f"x.reshape(*x.shape[:2], -1, num_heads){TURN}",
        "the number of heads is taken for the number of features of each. `num_heads` says how many heads there are (the "
        "second argument of `torch.split` is a width, that of `chunk` a number).",
        caught_by="split_values",
    ),
    splits(
        "split_back_to_front",
        f"{CUT}{TURN}.flip(1)",
        "the heads come in reverse order. The first Dh features belong to head 0.",
        look=("flip", "reversed"),
    ),
    splits(
        "split_and_squeezed",
        f"{CUT}{TURN}.squeeze()",
        "squeeze takes away every axis of size 1, also the batch of one sequence. Four axes are asked for, whatever their "
        "sizes.",
        look=("squeeze",),
    ),
    splits(
        "split_squeezed_for_one_head",
        f"{CUT}{TURN}.squeeze(1)",
        "squeeze takes away the axis of the heads where there is one head. Four axes are asked for, whatever their sizes.",
        look=("squeeze",),
        caught_by="split_small",
    ),
    splits(
        "split_in_float32",
        f"{CUT}{TURN}.float()",
        "the result is float32 whatever comes in. Was it written into a tensor made by zeros or empty? Those are float32 "
        "unless told otherwise; keep the dtype of x.",
        look=("float", "float32", "zeros", "empty", "to"),
        caught_by="split_in_float64",
    ),
    splits(
        "split_along_positions",
        "x.reshape(x.shape[0], num_heads, -1, x.shape[-1])",
        "the positions are shared out among the heads, not the features: it raises where K is not a multiple of H.",
        told="gap",
    ),
    splits(
        "split_by_view",
        f"x.view(-1, x.shape[-1]).{CUT.removeprefix('x.').replace('*x.shape[:2]', 'x.shape[0], x.shape[1]')}{TURN}",
        "view raises where x is not contiguous in memory.",
        caught_by="split_of_a_transposed_tensor",
        told="gap",
    ),
    splits(
        "split_detached",
        f"{CUT.replace('x.reshape', 'x.detach().reshape')}{TURN}",
        "x is cut off from the graph.",
        caught_by="split_gradients",
        told="gap",
    ),
    splits(
        "split_empties_x",
        f"(x.clone(), x.zero_())[0].reshape(*x.shape[:2], num_heads, -1){TURN}",
        "x is overwritten.",
        caught_by="split_leaves_x_alone",
        told="gap",
    ),
    *(
        mistake(
            name=name,
            of="split_heads",
            change={UNEVEN: instead},
            caught_by="split_refuses",
            told="gap",
            says=says,
        )
        for name, instead, says in (
            ("uneven_is_torchs_error", "if False:", "nothing is checked: torch raises a RuntimeError of its own."),
            (
                "uneven_is_asserted",
                "assert x.shape[-1] % num_heads == 0\n    if False:",
                "it raises an AssertionError.",
            ),
            (
                "uneven_features_dropped",
                "x = x[..., : x.shape[-1] // num_heads * num_heads]\n    if False:",
                "what cannot be shared out evenly is dropped without a word.",
            ),
        )
    ),
]


# 2.3 ------------------------------------------------------------------------------------------------------------------

LAYER = "MultiHeadAttention"
MAKE = "nn.ModuleList(SelfAttention(dim_in, dim_out, dim_out) for _ in range(num_heads))"
PROJECTION = "nn.Linear(num_heads * dim_out, dim_in)"
ASK = "head(query, key, value, mask) for head in self.heads"
JOINED = f"concat_heads([{ASK}])"
PROJECT = "self.linear_mult(joined)"
ASKING = ("heads", "head")


def layer(
    name: str,
    change: dict[str, str],
    says: str,
    look: tuple[str, ...] = ASKING,
    caught_by: str = "layer_values",
    told: Told = "cause",
) -> Mistake:
    """A wrong MultiHeadAttention."""
    return mistake(name=name, of=LAYER, change=change, caught_by=caught_by, look=look, says=says, told=told)


MULTI_HEAD_ATTENTION = [
    layer(
        "projection_forgotten",
        {PROJECT: "joined"},
        "the joined heads are handed back as they are. `linear_mult`, the output projection, is where the heads meet; it also "
        "brings the features back to `dim_in`.",
        look=("concat_heads", "cat"),
    ),
    layer(
        "first_head_for_all",
        {ASK: ASK.replace("head(", "self.heads[0](")},
        "head 0 reads every time. Each head has weights of its own and reads once.",
    ),
    layer(
        "heads_read_back_to_front",
        {ASK: ASK.replace("self.heads", "reversed(self.heads)")},
        "the heads are joined in reverse order. `linear_mult` expects the features of head 0 first.",
        look=("reversed", "insert", "heads"),
    ),
    layer(
        "heads_joined_by_reshape",
        {JOINED: f"torch.stack([{ASK}], dim=1).reshape(*query.shape[:2], -1)"},
        "the outputs of the heads are stacked before the positions and then reshaped, so a position gets features of other "
        "positions. Joining them is what `concat_heads` is for.",
        look=("reshape", "view", "stack"),
    ),
    layer(
        "adds_its_input",
        {PROJECT: f"{PROJECT} + query"},
        "the query is added to the output. That is a matter of Lab 3: this layer ends with the output projection.",
        look=("linear_mult",),
    ),
    layer(
        "layer_swaps_key_and_value",
        {ASK: ASK.replace("key, value", "value, key")},
        "the heads get `value` in place of `key`, and `key` in place of `value`. Each head takes query, key, value, in this "
        "order.",
        caught_by="layer_reads_another_sequence",
    ),
    layer(
        "layer_swaps_query_and_key",
        {ASK: ASK.replace("query, key", "key, query")},
        "query and key change places: with another sequence of sources, weights and values do not fit.",
        caught_by="layer_reads_another_sequence",
        told="gap",
    ),
    layer(
        "layer_reads_itself",
        {ASK: ASK.replace("query, key, value", "query, query, query")},
        "every head reads the query's own sequence. The sources may be another sequence: keys are made from `key`, values from "
        "`value`.",
        caught_by="layer_reads_another_sequence",
    ),
    layer(
        "layer_takes_key_for_value",
        {ASK: ASK.replace("key, value", "key, key")},
        "the heads get `key` a second time in place of `value`. The key decides how much is read, the value is what is read.",
        caught_by="layer_reads_another_sequence",
    ),
    layer(
        "layer_drops_the_mask",
        {ASK: ASK.replace(", mask", "")},
        "the layer takes a mask and does not hand it on. Every head gets it.",
        caught_by="layer_passes_the_mask",
    ),
    layer(
        "mask_for_head_0_only",
        {ASK: ASK.replace("mask)", "mask if head is self.heads[0] else None)")},
        "only head 0 gets the mask. It holds for all heads alike.",
        caught_by="layer_passes_the_mask",
    ),
    layer(
        "mask_of_sequence_0_for_all",
        {ASK: ASK.replace("mask)", "mask if mask is None else mask[:1])")},
        "the mask of sequence 0 is used for every sequence. Each sequence has its own.",
        caught_by="layer_passes_the_mask",
        look=("mask",),
    ),
    layer(
        "layer_inverts_the_mask",
        {ASK: ASK.replace("mask)", "mask if mask is None else ~mask)")},
        "the mask is turned over on its way to the heads. True means *must not read* here and in the heads: hand it on as it "
        "comes.",
        caught_by="layer_passes_the_mask",
        look=("logical_not", "mask"),
    ),
    layer(
        "layer_transposes_the_mask",
        {ASK: ASK.replace("mask)", "mask if mask is None else mask.mT)")},
        "rows and columns of the mask change places on the way to the heads. It has a row per reader already: hand it on as "
        "it comes.",
        caught_by="layer_passes_the_mask",
        look=("mT", "transpose", "permute"),
    ),
    layer(
        "one_sequence_squeezed",
        {PROJECT: f"{PROJECT}.squeeze(0)"},
        "squeeze takes away the axis of the batch where there is one sequence. Three axes come in, three go out.",
        look=("squeeze",),
        caught_by="layer_small",
    ),
    layer(
        "layer_rounds_to_float32",
        {PROJECT: f"{PROJECT}.float()"},
        "the output is float32 whatever comes in. Keep the dtype of weights and inputs.",
        look=("float", "float32", "to"),
        caught_by="layer_in_float64",
    ),
    layer(
        "heads_cut_off",
        {PROJECT: PROJECT.replace("joined", "joined.detach()")},
        "what the heads found is cut off from the graph before it is projected, so no head could learn.",
        look=("detach", "no_grad", "data", "numpy", "tensor"),
        caught_by="layer_learns",
    ),
    layer(
        "last_head_cut_off",
        {ASK: ASK.replace(" for ", ".detach() if head is self.heads[-1] else head(query, key, value, mask) for ")},
        "what the last head found is cut off from the graph, so this head could not learn.",
        look=("detach", "no_grad", "data", "numpy", "tensor"),
        caught_by="layer_learns",
    ),
    *(
        layer(name, change, says, caught_by="layer_has_its_parts", told="gap")
        for name, change, says in (
            ("heads_in_a_list", {"nn.ModuleList(": "list("}, "heads in a plain list: torch finds no weight in it."),
            (
                "one_head_too_many",
                {"range(num_heads)": "range(num_heads + 1)"},
                "there is one head more than asked for.",
            ),
            (
                "one_head_many_times",
                {MAKE: "nn.ModuleList([SelfAttention(dim_in, dim_out, dim_out)] * num_heads)"},
                "the list holds one and the same head H times.",
            ),
            (
                "heads_share_the_width",
                {MAKE: MAKE.replace("dim_out", "dim_out // num_heads")},
                "dim_out is divided among the heads; it is the width of each.",
            ),
            ("projection_without_bias", {PROJECTION: PROJECTION[:-1] + ", bias=False)"}, "the projection has no bias."),
            (
                "projection_of_one_head",
                {PROJECTION: "nn.Linear(dim_out, dim_in)"},
                "the projection takes the features of one head only.",
            ),
            (
                "projection_keeps_the_width",
                {PROJECTION: "nn.Linear(num_heads * dim_out, num_heads * dim_out)"},
                "the projection does not bring the features back to dim_in.",
            ),
        )
    ),
    layer(
        "layer_averages_its_heads",
        {JOINED: f"torch.stack([{ASK}]).mean(0)"},
        "the heads are averaged, so the projection gets too few features and raises.",
        told="gap",
    ),
    layer(
        "features_shared_out",
        {
            ASK: "head(q, k, v, mask) for head, q, k, v in zip(self.heads, *(x.chunk(3, -1) for x in (query, key, value)))"
        },
        "each head gets a part of the features of the input; every head reads all of them. The head's projection raises.",
        told="gap",
    ),
    layer(
        "mask_of_full_shape_only",
        {ASK: ASK.replace("mask)", "mask if mask is None else mask.view(*query.shape[:2], key.shape[1]))")},
        "a mask that only broadcasts is refused: view raises.",
        caught_by="layer_mask_broadcasts",
        told="gap",
    ),
    layer(
        "query_emptied",
        {f"y: Tensor = {PROJECT}": f"y: Tensor = {PROJECT}\n        query.data.zero_()"},
        "the query is overwritten.",
        caught_by="layer_leaves_inputs_alone",
        told="gap",
    ),
    layer(
        "layer_is_ready_made",
        {
            ASK: "nn.functional.scaled_dot_product_attention("
            "head.q(query), head.k(key), head.v(value), None if mask is None else ~mask) for head in self.heads"
        },
        "torch's own attention reads in place of the heads.",
        caught_by="layer_is_not_ready_made",
        told="gap",
    ),
]


# 2.4 ------------------------------------------------------------------------------------------------------------------

MEASURE = "module(x[:, permutation]) - y[:, permutation]"
LARGEST = "difference.abs().max()"
RELATIVE = f"float({LARGEST} / y.abs().max())"
KEEP_MODE = "was_training = module.training\n"


def gap(
    name: str,
    change: dict[str, str],
    says: str,
    look: tuple[str, ...] = ("permutation",),
    caught_by: str = "gap_values",
    told: Told = "cause",
) -> Mistake:
    """A wrong permutation_gap."""
    return mistake(name=name, of="permutation_gap", change=change, caught_by=caught_by, look=look, says=says, told=told)


PERMUTATION_GAP = [
    gap(
        "input_not_reordered",
        {MEASURE: MEASURE.replace("x[:, permutation]", "x")},
        "the module is applied to x in its old order both times. One of the two outputs is that of the reordered input, F(Px).",
        look=("permutation",),
    ),
    gap(
        "output_not_reordered",
        {MEASURE: MEASURE.replace("y[:, permutation]", "y")},
        "F(Px) is compared with F(x) as it is. P acts on the output as well: compare with P F(x).",
        look=("abs", "max"),
    ),
    gap(
        "nothing_reordered",
        {MEASURE: "module(x) - y"},
        "the positions keep their order on both sides, so the gap is 0 where it is not. Compare F(Px), the input reordered, "
        "with P F(x), the output reordered. If something is reordered: positions are the axis behind the batch, not the last.",
        look=("module",),
    ),
    gap(
        "module_not_applied",
        {MEASURE: "x[:, permutation] - y[:, permutation]"},
        "the reordered input itself is compared with the reordered output. The module is applied to it first: F(Px).",
    ),
    gap(
        "output_put_back",
        {MEASURE: MEASURE.replace("y[:, permutation]", "y[:, permutation.argsort()]")},
        "the output is reordered the other way round. The same P acts on inputs and outputs: (PF(x))[:, i] is "
        "F(x)[:, permutation[i]].",
        look=("argsort", "sort", "permutation"),
    ),
    gap(
        "input_put_back",
        {MEASURE: MEASURE.replace("x[:, permutation]", "x[:, permutation.argsort()]")},
        "the input is reordered the other way round. The same P acts on inputs and outputs: (Px)[:, i] is "
        "x[:, permutation[i]].",
        look=("argsort", "sort", "permutation"),
    ),
    gap(
        "reordered_the_other_way_round",
        {KEEP_MODE: f"{KEEP_MODE}    permutation = permutation.argsort()\n"},
        "P is used the other way round, for inputs and outputs alike. `permutation` says which position comes to stand where: "
        "with [2, 0, 1] the sequence a b c becomes c a b, not b c a.",
        look=("argsort", "sort", "permutation"),
    ),
    gap(
        "gap_not_relative",
        {RELATIVE: f"float({LARGEST})"},
        "the largest difference is not divided by anything, so a module with large outputs seems to commute less. Divide by the "
        "largest |F(x)|.",
        look=("max", "abs"),
    ),
    gap(
        "gap_relative_to_the_input",
        {"/ y.abs()": "/ x.abs()"},
        "the largest difference is divided by the largest |x|. It is the size of the output that counts: |F(x)|.",
        look=("max", "abs"),
    ),
    gap(
        "gap_relative_to_the_reordered",
        {"/ y.abs()": "/ module(x[:, permutation]).abs()"},
        "the largest difference is divided by the largest |F(Px)|. What it is compared with is |F(x)|, before reordering.",
        look=("max", "abs"),
    ),
    gap(
        "gap_elementwise",
        {RELATIVE: "float((difference / y[:, permutation]).abs().max())"},
        "each difference is divided by the output at its own place, and the largest quotient taken. Take both maxima first, each "
        "over the whole tensor, then divide once.",
        look=("max", "abs"),
    ),
    gap(
        "gap_of_each_sequence",
        {RELATIVE: "float((difference.abs().amax((1, 2)) / y.abs().amax((1, 2))).max())"},
        "the gap is taken for each sequence, and the largest of these handed back. Both maxima run over the whole tensor, "
        "the batch included.",
        look=("amax", "max"),
    ),
    gap(
        "gap_of_the_mean",
        {RELATIVE: RELATIVE.replace(LARGEST, "difference.abs().mean()")},
        "the mean difference is taken. A module that fails at one position only would hardly show: take the largest.",
        look=("mean",),
    ),
    gap(
        "gap_of_means",
        {RELATIVE: "float(difference.abs().mean() / y.abs().mean())"},
        "means are compared. A module that fails at one position only would hardly show: both are maxima.",
        look=("mean",),
    ),
    gap(
        "gap_of_norms",
        {RELATIVE: "float(difference.norm() / y.norm())"},
        "the two are measured by their norm, a root of a sum of squares. Both are the largest absolute value.",
        look=("norm",),
    ),
    gap(
        "difference_with_its_sign",
        {LARGEST: "difference.max()"},
        "the largest difference is taken with its sign, so what is too small does not count. The largest absolute "
        "value is asked for.",
        look=("max",),
    ),
    gap(
        "output_with_its_sign",
        {"y.abs().max()": "y.max()"},
        "the largest F(x) is taken with its sign: where the output is negative, it is not the largest |F(x)|.",
        look=("max",),
    ),
    gap(
        "gap_in_the_mode_it_came_in",
        {"    module.eval()\n": ""},
        "the module is measured in the mode in which it came. In train mode dropout gives another output at each call, and "
        "the gap measures chance: measure in eval mode.",
        look=("module",),
        caught_by="gap_in_eval_mode",
    ),
    gap(
        "gap_in_train_mode",
        {"module.eval()": "module.train()"},
        "the module is measured in train mode. There dropout gives another output at each call, and the gap measures chance: "
        "measure in eval mode.",
        look=("train",),
        caught_by="gap_of_what_commutes",
    ),
    gap(
        "left_in_eval_mode",
        {"module.train(was_training)": "pass"},
        "the module stays in eval mode.",
        caught_by="gap_puts_the_mode_back",
        told="gap",
    ),
    gap(
        "left_in_train_mode",
        {"module.train(was_training)": "module.train()"},
        "the module is in train mode afterwards, whatever it came in.",
        caught_by="gap_puts_the_mode_back",
        told="gap",
    ),
    gap(
        "gap_as_a_tensor",
        {RELATIVE: RELATIVE.removeprefix("float")},
        "the gap is a tensor.",
        caught_by="gap_is_a_float",
        told="gap",
    ),
    gap(
        "x_reordered_in_place",
        {MEASURE: "module(x.copy_(x[:, permutation])) - y[:, permutation]"},
        "x itself is reordered, so the caller's tensor changes.",
        caught_by="gap_leaves_x_alone",
        told="gap",
    ),
    gap(
        "sequences_reordered",
        {MEASURE: MEASURE.replace("[:, permutation]", "[permutation]")},
        "the sequences of the batch are reordered, not the positions: indexing raises.",
        caught_by="gap_example",
        told="gap",
    ),
]


# 2.6 ------------------------------------------------------------------------------------------------------------------

SCALE = "q.shape[-1] ** -0.5"
SOFTMAX = "scores.softmax(dim=-1)"
BACK = ".transpose(1, 2).flatten(2)"
READ = f"({SOFTMAX} @ v){BACK}"
HIDE = "scores = scores.masked_fill(per_sequence[:, None], -1e9)"
PLACE = "per_sequence[:, None]"
PARTS = "parts = [getattr(head, name) for head in mha.heads]"
LOAD_PROJECTION = "self.linear_mult.load_state_dict(mha.linear_mult.state_dict())"
ROWS = "torch.cat([part.weight for part in parts])"
SCALING = ("sqrt", "pow", "softmax", "exp")
SOFTMAXES = ("softmax", "log_softmax", "exp")
MASKING = ("masked_fill", "where", "mask")


def fused(
    name: str,
    change: dict[str, str],
    says: str,
    look: tuple[str, ...],
    caught_by: str = "fused_values",
    told: Told = "cause",
) -> Mistake:
    """A wrong FusedMultiHeadAttention."""
    of = "FusedMultiHeadAttention"
    return mistake(name=name, of=of, change=change, caught_by=caught_by, look=look, says=says, told=told)


FUSED = [
    fused(
        "fused_scale_of_all_heads",
        {SCALE: "(self.num_heads * q.shape[-1]) ** -0.5"},
        "the scores are divided by √(H·Dh), the width of all heads together. Each head compares vectors of Dh features.",
        look=SCALING,
    ),
    fused(
        "fused_scale_of_the_input",
        {SCALE: "query.shape[-1] ** -0.5"},
        "the scores are divided by √M, the width of the input. What is compared are the queries and keys of one head: they "
        "have Dh features.",
        look=SCALING,
    ),
    fused(
        "fused_scale_by_length",
        {SCALE: "key.shape[1] ** -0.5"},
        "the scores are divided by √K, the number of sources. What counts is the width of a key, Dh: a dot product adds up Dh "
        "terms.",
        look=SCALING,
    ),
    fused(
        "fused_scale_by_width",
        {SCALE: "1 / q.shape[-1]"},
        "the scores are divided by Dh. It is the square root of it.",
        look=SCALING,
    ),
    fused(
        "fused_no_scale",
        {f" * {SCALE}": ""},
        "the scores are not scaled. As in Lab 1, they are divided by the square root of the width of a key, here Dh.",
        look=SOFTMAXES,
    ),
    fused(
        "fused_softmax_over_readers",
        {SOFTMAX: "scores.softmax(dim=2)"},
        "softmax runs over the readers. A row of weights is one reader of one head: normalise over the sources.",
        look=SOFTMAXES,
    ),
    fused(
        "fused_softmax_over_heads",
        {SOFTMAX: "scores.softmax(dim=1)"},
        "softmax runs over the heads, so they compete with each other. Each head reads for itself: normalise over the sources.",
        look=SOFTMAXES,
    ),
    fused(
        "fused_no_softmax",
        {SOFTMAX: "scores"},
        "the scores are used as weights directly. Softmax over the sources turns them into weights that sum to 1.",
        look=("matmul", "einsum"),
    ),
    fused(
        "fused_heads_read_each_other",
        {
            "q = split_heads(self.q(query), self.num_heads)": "q = split_heads(self.q(query), self.num_heads).transpose(1, 2)",
            "k = split_heads(self.k(key), self.num_heads)": "k = split_heads(self.k(key), self.num_heads).transpose(1, 2)",
            "v = split_heads(self.v(value), self.num_heads)": "v = split_heads(self.v(value), self.num_heads).transpose(1, 2)",
            READ: f"({SOFTMAX} @ v).flatten(2)",
        },
        "the axis of the heads stands where the positions should, so at each position the heads read each other. Bring the "
        "heads before the positions, as `split_heads` does: then every head compares positions.",
        look=("reshape", "view", "unflatten", "matmul"),
    ),
    fused(
        "fused_joined_by_reshape",
        {BACK: ".reshape(len(query), query.shape[1], -1)"},
        "what the heads found is reshaped while the heads still stand before the positions, so a position gets features "
        "of other positions. Bring the heads back behind the positions first.",
        look=("reshape", "view", "flatten"),
    ),
    fused(
        "fused_heads_interleaved",
        {BACK: ".permute(0, 2, 3, 1).flatten(2)"},
        "the features of the heads alternate when they are joined. All features of head 0 come first, then all of head 1.",
        look=("permute", "reshape", "view", "flatten"),
    ),
    fused(
        "fused_projection_forgotten",
        {PROJECT: "joined"},
        "the joined heads are handed back as they are. The output projection `linear_mult` is the last step here, too.",
        look=("flatten", "reshape", "view"),
    ),
    fused(
        "fused_value_from_key",
        {"self.v(value)": "self.v(key)"},
        "`v` projects the key. Values are made from `value`.",
        look=("v",),
        caught_by="fused_reads_another_sequence",
    ),
    fused(
        "fused_reads_itself",
        {"self.k(key)": "self.k(query)", "self.v(value)": "self.v(query)"},
        "queries, keys and values are all made from `query`. The sources may be another sequence than the readers.",
        look=("k", "v"),
        caught_by="fused_reads_another_sequence",
    ),
    fused(
        "fused_queries_and_keys_swapped",
        {"self.q(query)": "self.k(query)", "self.k(key)": "self.q(key)"},
        "`q` and `k` have changed places. Queries go through `q`, keys through `k`.",
        look=("k",),
    ),
    fused(
        "fused_drops_the_mask",
        {HIDE: "pass"},
        "the mask changes nothing. It is to be applied to the scores of every head, before softmax.",
        look=SOFTMAXES,
        caught_by="fused_mask",
    ),
    fused(
        "fused_inverts_the_mask",
        {PLACE: f"~{PLACE}"},
        "the mask is read the wrong way round. True means *must not read*.",
        look=MASKING,
        caught_by="fused_mask",
    ),
    fused(
        "fused_mask_of_another_sequence",
        {PLACE: "per_sequence.repeat(self.num_heads, 1, 1).reshape(scores.shape)"},
        "the mask is repeated for the heads, and the copies meet the scores of other sequences: the copies follow "
        "each other head by head, the scores sequence by sequence. A mask with an axis of size 1 for the heads needs no copies.",
        look=("repeat", "expand", "tile", "cat"),
        caught_by="fused_mask",
    ),
    fused(
        "fused_mask_after_softmax",
        {
            HIDE: "pass",
            SOFTMAX: f"({SOFTMAX} if mask is None else {SOFTMAX}.masked_fill(per_sequence[:, None], 0))",
        },
        "the mask is applied to the weights, after softmax, so the rows no longer sum to 1. It belongs to the scores.",
        look=MASKING,
        caught_by="fused_mask",
    ),
    fused(
        "fused_one_sequence_squeezed",
        {PROJECT: f"{PROJECT}.squeeze(0)"},
        "squeeze takes away the axis of the batch where there is one sequence. Three axes come in, three go out.",
        look=("squeeze",),
        caught_by="fused_small",
    ),
    fused(
        "fused_rounds_to_float32",
        {PROJECT: f"{PROJECT}.float()"},
        "the output is float32 whatever comes in. Keep the dtype of weights and inputs.",
        look=("float", "float32", "to"),
        caught_by="fused_in_float64",
    ),
    fused(
        "fused_heads_cut_off",
        {PROJECT: PROJECT.replace("joined", "joined.detach()")},
        "what the heads found is cut off from the graph before it is projected, so `q`, `k` and `v` could not learn.",
        look=("detach", "no_grad", "data", "numpy", "tensor"),
        caught_by="fused_learns",
    ),
    fused(
        "loaded_back_to_front",
        {PARTS: PARTS.replace("mha.heads", "reversed(mha.heads)")},
        "the heads are copied in reverse order. The rows of head 0 come first.",
        look=("reversed", "cat"),
        caught_by="fused_loads_heads",
    ),
    fused(
        "loaded_interleaved",
        {
            ROWS: ROWS.replace("cat(", "stack(").replace("parts])", "parts], dim=1).flatten(0, 1)"),
            "torch.cat([part.bias for part in parts])": "torch.stack([part.bias for part in parts], dim=1).flatten()",
        },
        "the rows of the heads alternate. All rows of head 0 come first, then all of head 1.",
        look=("stack", "cat"),
        caught_by="fused_loads_heads",
    ),
    fused(
        "loaded_first_head_only",
        {PARTS: PARTS.replace("getattr(head", "getattr(mha.heads[0]")},
        "the weights of head 0 are copied for every head. Each head has its own.",
        look=("heads",),
        caught_by="fused_loads_heads",
    ),
    fused(
        "loaded_without_biases",
        {"fused.bias.copy_(torch.cat([part.bias for part in parts]))": "pass"},
        "the weights are copied and the biases are not. Each of the layers has both.",
        look=("weight",),
        caught_by="fused_loads_heads",
    ),
    fused(
        "loaded_without_projection",
        {LOAD_PROJECTION: "pass"},
        "the output projection is not copied. `linear_mult` belongs to what is loaded, too.",
        look=("heads",),
        caught_by="fused_loads_heads",
    ),
    fused(
        "projection_shared",
        {LOAD_PROJECTION: "self.linear_mult = mha.linear_mult"},
        "`linear_mult` is taken over, not copied: both layers hold the same one, and training one changes the other.",
        look=("linear_mult",),
        caught_by="fused_keeps_copies",
    ),
    fused(
        "fused_without_bias",
        {
            "self.v = nn.Linear(dim_in, num_heads * dim_out)": "self.v = nn.Linear(dim_in, num_heads * dim_out, bias=False)"
        },
        "a projection has no bias.",
        look=(),
        told="gap",
    ),
    fused(
        "fused_parts_of_one_head",
        {"self.q = nn.Linear(dim_in, num_heads * dim_out)": "self.q = nn.Linear(dim_in, dim_out)"},
        "a projection makes the features of one head only.",
        look=(),
        told="gap",
    ),
    fused(
        "fused_mask_without_head_axis",
        {PLACE: "mask"},
        "the mask meets the scores without an axis for the heads, and does not fit.",
        look=MASKING,
        caught_by="fused_mask",
        told="gap",
    ),
    fused(
        "fused_mask_of_three_axes_only",
        {PLACE: "mask[:, None]"},
        "the axis for the heads lands in the wrong place where the mask has two axes, and does not fit.",
        look=MASKING,
        caught_by="fused_mask_broadcasts",
        told="gap",
    ),
    fused(
        "fused_loops_over_heads",
        {READ: "torch.cat([scores[:, h].softmax(dim=-1) @ v[:, h] for h in range(self.num_heads)], dim=-1)"},
        "there is a loop over the heads.",
        look=(),
        caught_by="fused_without_a_loop",
        told="gap",
    ),
    fused(
        "fused_is_ready_made",
        {
            READ: "nn.functional.scaled_dot_product_attention("
            f"q, k, v, None if mask is None else ~{PLACE}).transpose(1, 2).flatten(2)"
        },
        "torch's own attention is used.",
        look=(),
        caught_by="fused_is_not_ready_made",
        told="gap",
    ),
]
