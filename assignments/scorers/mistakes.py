"""What goes wrong in Lab 4, as small changes of the reference.

Each is caught by the check that is meant for it and named where it reproduces a student's output exactly; `make audit` proves
both. The sentences are the student's: what it is, why it is wrong, where to look.
"""

from autograder.diagnose import mistake

DOT = "dot_product_scores"
SCALED = "scaled_dot_product_scores"
ADDITIVE = "AdditiveScorer"
LINEAR = "LinearConcatScorer"
READ = "read"
EFFECT = "query_effect"
GAP = "shift_gap"
COMPARE = "compare"

PRODUCT = "query @ key.transpose(1, 2)"
SCALE = "key.shape[-1] ** -0.5"
FROM_QUERY = "self.W_q(query).unsqueeze(2)"
FROM_KEY = "self.W_k(key).unsqueeze(1)"
HIDDEN = "torch.tanh(pairs + self.b)"
ADDITIVE_SCORES = f"{HIDDEN} @ self.v_a"
LINEAR_SCORES = "(query @ self.a).unsqueeze(2) + (key @ self.b).unsqueeze(1)"
SOFTMAX = "scores.softmax(dim=-1)"
MASK = "scores.masked_fill(mask, -1e9)"
SHIFTED = "(scores + c).softmax(dim=-1)"
BEFORE = "scorer(query, key).softmax(dim=-1)"
AFTER = "scorer(other_query, key).softmax(dim=-1)"
LARGEST = "change.abs().max()"
ENTROPY = "torch.special.entr(weights).sum(dim=-1).mean()"
ROW_SUM = "(weights.sum(dim=-1) - 1).abs().max()"

AT_SOFTMAX = ("softmax", "log_softmax", "exp")
AT_PRODUCT = ("matmul", "bmm", "einsum", "baddbmm")
AT_MASK = ("masked_fill", "where", "logical_not")
AT_ENTROPY = ("log", "log2", "log10", "entr", "xlogy", "log_softmax")

DOT_PRODUCTS = [
    mistake(
        name="dot_already_scaled",
        of=DOT,
        change={PRODUCT: f"{PRODUCT} * query.shape[-1] ** -0.5"},
        caught_by="dot_values",
        look=("sqrt", *AT_PRODUCT),
        says="the dot products are divided by √D here already. 4.1 asks for them as they are; the scale belongs to "
        "4.2.",
    ),
    mistake(
        name="dot_transposed",
        of=DOT,
        change={PRODUCT: "key @ query.transpose(1, 2)"},
        caught_by="dot_values",
        look=AT_PRODUCT,
        says="rows and columns have changed places. Row i is the reader, made from a query; column j is the source, "
        "made from a key.",
    ),
    mistake(
        name="dot_keys_with_keys",
        of=DOT,
        change={PRODUCT: "key @ key.transpose(1, 2)"},
        caught_by="dot_values",
        look=AT_PRODUCT,
        says="keys are multiplied with keys, so the query has no part in the scores. A row belongs to a query.",
    ),
    mistake(
        name="dot_queries_with_queries",
        of=DOT,
        change={PRODUCT: "query @ query.transpose(1, 2)"},
        caught_by="dot_values",
        look=AT_PRODUCT,
        says="queries are multiplied with queries, so the keys have no part in the scores. A column belongs to a key.",
    ),
    mistake(
        name="dot_features_with_features",
        of=DOT,
        change={PRODUCT: "query.transpose(1, 2) @ key"},
        caught_by="dot_values",
        look=("transpose", "permute", "mT", *AT_PRODUCT),
        says="the wrong one of the two is transposed: the sum runs over the positions and leaves a table of features. "
        "A dot product sums over the features.",
    ),
    mistake(
        name="dot_sums_all_pairs_of_features",
        of=DOT,
        change={PRODUCT: "query.sum(-1).unsqueeze(2) * key.sum(-1).unsqueeze(1)"},
        caught_by="dot_values",
        look=("sum", "einsum"),
        says="query and key are summed over their features first and multiplied then. In a dot product feature d meets "
        "feature d only: multiply first, then sum.",
    ),
]

DOT_PRODUCTS_SCALED = [
    mistake(
        name="no_scale",
        of=SCALED,
        change={f" * {SCALE}": ""},
        caught_by="scaled_values",
        look=(DOT, *AT_PRODUCT),
        says="the scores are not scaled. Divide each dot product by the square root of the key's width, √D.",
    ),
    mistake(
        name="scale_by_width",
        of=SCALED,
        change={SCALE: "1 / key.shape[-1]"},
        caught_by="scaled_values",
        look=(DOT, *AT_PRODUCT),
        says="the scores are divided by D. It is the square root of the width, √D. (Dividing by √D twice gives this, "
        "too.)",
    ),
    mistake(
        name="scale_by_length",
        of=SCALED,
        change={SCALE: "key.shape[1] ** -0.5"},
        caught_by="scaled_values",
        look=("sqrt", DOT, *AT_PRODUCT),
        says="the scores are divided by the square root of the number of positions. What counts is the width of a "
        "key, √D: a dot product adds up D terms.",
    ),
    mistake(
        name="scale_multiplied",
        of=SCALED,
        change={SCALE: "key.shape[-1] ** 0.5"},
        caught_by="scaled_values",
        look=("sqrt", DOT, *AT_PRODUCT),
        says="the scores are multiplied by √D. They are divided by it: wide keys give large dot products.",
    ),
    mistake(
        name="scale_of_the_sentence",
        of=SCALED,
        change={SCALE: "3**-0.5"},
        caught_by="scaled_values",
        look=("sqrt", DOT, *AT_PRODUCT),
        says="the scores are always divided by √3. That fits the sentence of the handout, whose keys have three "
        "features; D is the width of the keys that come in.",
    ),
    mistake(
        name="scale_is_a_fixed_number",
        of=SCALED,
        change={SCALE: "0.5"},
        caught_by="scaled_widths",
        look=("sqrt", DOT, *AT_PRODUCT),
        says="the scores are always divided by 2, which is right for keys of four features only. D is the width of "
        "the keys that come in.",
    ),
    mistake(
        name="scaled_transposed",
        of=SCALED,
        change={"dot_product_scores(query, key)": "dot_product_scores(key, query)"},
        caught_by="scaled_values",
        look=(DOT, *AT_PRODUCT),
        says="rows and columns have changed places. Row i is the reader, made from a query; column j is the source, "
        "made from a key.",
    ),
]

ADDITIVE_SCORER = [
    mistake(
        name="tanh_missing",
        of=ADDITIVE,
        change={"torch.tanh": ""},
        caught_by="additive_values",
        look=("b",),
        says="the tanh is missing. Without it the score is a number from the query plus a number from the key, and "
        "the same number in a whole row changes no weight: the scorer does not listen.",
    ),
    mistake(
        name="tanh_after_weighing",
        of=ADDITIVE,
        change={ADDITIVE_SCORES: "torch.tanh((pairs + self.b) @ self.v_a)"},
        caught_by="additive_values",
        look=("tanh",),
        says="tanh is taken of the finished score. It belongs to each hidden unit: add, then tanh, then weigh with "
        "v_a.",
    ),
    *(
        mistake(
            name=name,
            of=ADDITIVE,
            change={
                FROM_QUERY: f"torch.tanh({FROM_QUERY})",
                FROM_KEY: f"torch.tanh({key})",
                HIDDEN: f"(pairs{outside})",
            },
            caught_by="additive_values",
            look=("tanh",),
            says="tanh is taken of the query's part and of the key's part alone, and the sum comes after. So the "
            "score is a number from the query plus a number from the key, and the query has no effect. Add first, "
            "then tanh.",
        )
        for name, key, outside in (
            ("tanh_before_the_sum", FROM_KEY, " + self.b"),
            ("tanh_before_the_sum_with_b", f"{FROM_KEY} + self.b", ""),
        )
    ),
    mistake(
        name="sigmoid_for_tanh",
        of=ADDITIVE,
        change={"torch.tanh": "torch.sigmoid"},
        caught_by="additive_values",
        look=("sigmoid", "Sigmoid"),
        says="the hidden units go through a sigmoid, which gives numbers from 0 to 1. Additive attention has a tanh, "
        "from −1 to 1.",
    ),
    mistake(
        name="relu_for_tanh",
        of=ADDITIVE,
        change={"torch.tanh": "torch.relu"},
        caught_by="additive_values",
        look=("relu", "ReLU", "clamp"),
        says="the hidden units go through a ReLU. Additive attention has a tanh, which bounds them between −1 and 1.",
    ),
    mistake(
        name="v_a_missing",
        of=ADDITIVE,
        change={" @ self.v_a": ".sum(dim=-1)"},
        caught_by="additive_values",
        look=("sum", "tanh"),
        says="the hidden units are added up without v_a, so all of them count alike. Each has a weight of its own in "
        "v_a.",
    ),
    mistake(
        name="v_a_inside_tanh",
        of=ADDITIVE,
        change={ADDITIVE_SCORES: "torch.tanh((pairs + self.b) * self.v_a).sum(dim=-1)"},
        caught_by="additive_values",
        look=("tanh",),
        says="v_a stands inside the tanh. It weighs what comes out of it: add, then tanh, then weigh with v_a.",
    ),
    mistake(
        name="b_outside_tanh",
        of=ADDITIVE,
        change={HIDDEN: "(torch.tanh(pairs) + self.b)"},
        caught_by="additive_values",
        look=("tanh",),
        says="b is added after the tanh. There it adds the same number to every score of every reader, and changes no "
        "weight. It stands inside the tanh.",
    ),
    mistake(
        name="b_added_to_the_score",
        of=ADDITIVE,
        change={ADDITIVE_SCORES: "torch.tanh(pairs) @ self.v_a + self.b.sum()"},
        caught_by="additive_values",
        look=("tanh",),
        says="b is summed and added to the finished score. There it changes no weight: it is the same number for "
        "every source. Each hidden unit has its own b, inside the tanh.",
    ),
    mistake(
        name="b_missing",
        of=ADDITIVE,
        change={" + self.b": ""},
        caught_by="additive_values",
        look=("tanh",),
        says="b is not used. It is added to the two projections, inside the tanh.",
    ),
    mistake(
        name="b_added_twice",
        of=ADDITIVE,
        change={" + self.b": " + 2 * self.b"},
        caught_by="additive_values",
        look=("tanh",),
        says="b is added twice, perhaps once to the query's part and once to the key's. Each pair gets it once.",
    ),
    *(
        mistake(
            name=name,
            of=ADDITIVE,
            change={f"{size}, dim_hidden, bias=False": f"{size}, dim_hidden" for size in sizes},
            caught_by="additive_values",
            look=sizes[:1],  # used first where the layer is made
            says=f"{who} of {its} own. The only bias of the formula is b, and nn.Linear brings one unless it is told not to.",
        )
        for name, sizes, who, its in (
            ("projections_with_bias", ("dim_q", "dim_k"), "W_q and W_k have biases", "their"),
            ("W_q_with_bias", ("dim_q",), "W_q has a bias", "its"),
            ("W_k_with_bias", ("dim_k",), "W_k has a bias", "its"),
        )
    ),
    mistake(
        name="additive_transposed",
        of=ADDITIVE,
        change={FROM_QUERY: "self.W_q(query).unsqueeze(1)", FROM_KEY: "self.W_k(key).unsqueeze(2)"},
        caught_by="additive_values",
        look=("query",),
        says="rows and columns have changed places. Row i is the reader, made from a query; column j is the source, "
        "made from a key. Look at the axis that you insert into each projection.",
    ),
    mistake(
        name="additive_same_position_only",
        of=ADDITIVE,
        change={FROM_QUERY: "self.W_q(query)", FROM_KEY: "self.W_k(key)"},
        caught_by="additive_values",
        look=("query",),
        says="query i is added to key i and to no other. Every reader meets every source: there are Kq · K sums for "
        "each sequence.",
    ),
    mistake(
        name="additive_multiplies",
        of=ADDITIVE,
        change={f"{FROM_QUERY} + {FROM_KEY}": f"{FROM_QUERY} * {FROM_KEY}"},
        caught_by="additive_values",
        look=("query",),
        says="the two projections are multiplied. This scorer is called additive because it adds them.",
    ),
    mistake(
        name="hidden_units_averaged",
        of=ADDITIVE,
        change={" @ self.v_a": ".mul(self.v_a).mean(dim=-1)"},
        caught_by="additive_values",
        look=("mean",),
        says="the weighed hidden units are averaged. v_aᵀ times a vector is a sum.",
    ),
    mistake(
        name="additive_scaled",
        of=ADDITIVE,
        change={" @ self.v_a": " @ self.v_a * self.v_a.numel() ** -0.5"},
        caught_by="additive_values",
        look=("tanh",),
        says="the scores are divided by the square root of the number of hidden units. The scale belongs to the dot "
        "products of 4.2; here is none.",
    ),
]

LINEAR_SCORER = [
    mistake(
        name="linear_multiplies",
        of=LINEAR,
        change={") + (": ") * ("},
        caught_by="linear_values",
        look=("query",),
        says="the query's number is multiplied with the key's. One linear layer on query and key joined can only add "
        "them, and that they are added is why this scorer does not listen.",
    ),
    mistake(
        name="linear_leaves_the_query_out",
        of=LINEAR,
        change={"(query @ self.a)": "(query @ self.a * 0)"},
        caught_by="linear_values",
        look=("query",),
        says="the query's number is not in the scores. That it changes no weight is what 4.7 shows; the scores do "
        "have it.",
    ),
    mistake(
        name="linear_leaves_the_key_out",
        of=LINEAR,
        change={"(key @ self.b)": "(key @ self.b * 0)"},
        caught_by="linear_values",
        look=("query",),
        says="the key's number is not in the scores, so all sources of a reader score alike.",
    ),
    mistake(
        name="linear_with_tanh",
        of=LINEAR,
        change={f"return {LINEAR_SCORES}": f"return torch.tanh({LINEAR_SCORES})"},
        caught_by="linear_values",
        look=("tanh",),
        says="the sum goes through a tanh. Then it is no linear layer any more, and the query has an effect; this "
        "scorer is here to show what happens without.",
    ),
    mistake(
        name="linear_transposed",
        of=LINEAR,
        change={".unsqueeze(2)": ".unsqueeze(1)", "(key @ self.b).unsqueeze(1)": "(key @ self.b).unsqueeze(2)"},
        caught_by="linear_values",
        look=("query",),
        says="rows and columns have changed places. Row i is the reader, made from a query; column j is the source, "
        "made from a key.",
    ),
    mistake(
        name="linear_same_position_only",
        of=LINEAR,
        change={".unsqueeze(2)": "", ".unsqueeze(1)": ""},
        caught_by="linear_values",
        look=("query",),
        says="query i is added to key i and to no other. Every reader meets every source, so each sequence has Kq · K "
        "scores.",
    ),
]

# The same slip in several scorers.
IN_EVERY_SCORER = [
    *(
        mistake(
            name=f"{short}_weights_for_scores",
            of=symbol,
            change={scores: f"({scores}).softmax(dim=-1)"},
            caught_by=f"{short}_values",
            look=AT_SOFTMAX,
            says="softmax is applied already. A scorer gives scores; that `read` makes weights of them is what lets "
            "scorers be exchanged.",
        )
        for short, symbol, scores in (
            ("dot", DOT, PRODUCT),
            ("scaled", SCALED, f"dot_product_scores(query, key) * {SCALE}"),
            ("additive", ADDITIVE, ADDITIVE_SCORES),
            ("linear", LINEAR, LINEAR_SCORES),
        )
    ),
    *(
        mistake(
            name=f"{short}_as_many_sources_as_readers",
            of=symbol,
            change={key: instead},
            caught_by=f"{short}_cross",
            look=("range", "key"),
            says="as many sources are scored as there are readers. The sources are the rows of `key`, and may be more "
            "or fewer.",
        )
        for short, symbol, key, instead in (
            ("dot", DOT, "@ key", "@ key[:, : query.shape[1]]"),
            ("scaled", SCALED, "(query, key)", "(query, key[:, : query.shape[1]])"),
            ("additive", ADDITIVE, "self.W_k(key)", "self.W_k(key[:, : query.shape[1]])"),
            ("linear", LINEAR, "key @ self.b", "key[:, : query.shape[1]] @ self.b"),
        )
    ),
    *(
        mistake(
            name=f"{short}_in_float32",
            of=symbol,
            change={scores: f"({scores}).float()"},
            caught_by=f"{short}_in_float64",
            look=("float", "to", "float32", "type"),
            says="the scores are float32, whatever comes in. Keep the dtype of the inputs.",
        )
        for short, symbol, scores in (
            ("dot", DOT, PRODUCT),
            ("scaled", SCALED, f"dot_product_scores(query, key) * {SCALE}"),
            ("additive", ADDITIVE, ADDITIVE_SCORES),
            ("linear", LINEAR, LINEAR_SCORES),
        )
    ),
    *(
        mistake(
            name=f"{short}_detached",
            of=symbol,
            change={part: f"{part}.detach()"},
            caught_by=caught,
            look=("detach", "no_grad", "data", "numpy", "item", "tensor"),
            says=f"{what} cut off from the graph, so no gradient arrives there, and nothing could be learned.",
        )
        for short, symbol, part, caught, what in (
            ("dot_key", DOT, "key.transpose(1, 2)", "dot_gradients", "the keys are"),
            ("scaled_key", SCALED, "(query, key", "scaled_gradients", "the keys are"),
            ("v_a", ADDITIVE, "@ self.v_a", "additive_learns", "v_a is"),
            ("b_of_linear", LINEAR, "key @ self.b", "linear_learns", "b is"),
        )
    ),
]

THE_READ = [
    mistake(
        name="softmax_over_readers",
        of=READ,
        change={SOFTMAX: "scores.softmax(dim=1)"},
        caught_by="read_output",
        look=AT_SOFTMAX,
        says="softmax runs over the readers. A row of the weights is one reader: normalise over the sources, the last "
        "axis.",
    ),
    mistake(
        name="softmax_over_sequences",
        of=READ,
        change={SOFTMAX: "scores.softmax(dim=0)"},
        caught_by="read_output",
        look=AT_SOFTMAX,
        says="softmax runs over the sequences of the batch, so they compete with each other. Normalise over the "
        "sources, the last axis.",
    ),
    mistake(
        name="softmax_over_everything",
        of=READ,
        change={SOFTMAX: "scores.flatten(1).softmax(dim=-1).view_as(scores)"},
        caught_by="read_output",
        look=AT_SOFTMAX,
        says="softmax runs over all pairs of a sequence at once, so that the whole matrix sums to 1. Each row, one "
        "reader, sums to 1 by itself.",
    ),
    mistake(
        name="softmax_twice",
        of=READ,
        change={SOFTMAX: "scores.softmax(dim=-1).softmax(dim=-1)"},
        caught_by="read_output",
        look=AT_SOFTMAX,
        says="softmax is applied twice. The second makes the weights nearly equal; what comes out of the first is "
        "weights already.",
    ),
    mistake(
        name="no_softmax",
        of=READ,
        change={SOFTMAX: "scores"},
        caught_by="read_output",
        look=AT_PRODUCT,
        says="the scores are used as weights directly. Softmax over the sources turns them into weights that sum to 1.",
    ),
    mistake(
        name="read_scales",
        of=READ,
        change={SOFTMAX: "(scores * scores.shape[-1] ** -0.5).softmax(dim=-1)"},
        caught_by="read_output",
        look=("sqrt", *AT_SOFTMAX),
        says="the scores are scaled again, by the square root of the number of sources. Whether scores are scaled is "
        "the scorer's business: `read` takes them as they come.",
    ),
    mistake(
        name="read_with_the_scores",
        of=READ,
        change={"weights @ value": "scores @ value"},
        caught_by="read_output",
        look=AT_PRODUCT,
        says="the values are read with the scores, though the weights are there. Weights sum to 1; scores may be "
        "anything.",
    ),
    mistake(
        name="read_by_columns",
        of=READ,
        change={"weights @ value": "weights.transpose(1, 2) @ value"},
        caught_by="read_output",
        look=("transpose", "mT", *AT_PRODUCT),
        says="the weights are transposed before they read. Reader i reads with row i; column i says who reads source "
        "i.",
    ),
    mistake(
        name="read_averages",
        of=READ,
        change={"weights @ value": "weights @ value / weights.shape[-1]"},
        caught_by="read_output",
        look=("mean",),
        says="the weighted values are averaged, not added up. The weights already sum to 1: nothing is left to divide "
        "by.",
    ),
    mistake(
        name="weights_and_output_swapped",
        of=READ,
        change={"weights @ value, weights": "weights, weights @ value"},
        caught_by="read_output",
        look=AT_PRODUCT,
        says="the weights come back first. Return what was read first, then the weights.",
    ),
    mistake(
        name="scores_returned_for_weights",
        of=READ,
        change={"@ value, weights": "@ value, scores"},
        caught_by="read_weights",
        look=("softmax",),
        says="the second value is the scores before softmax. Return the weights with which the values were read.",
    ),
    mistake(
        name="read_as_many_sources_as_readers",
        of=READ,
        change={"weights @ value": "weights[:, :, : scores.shape[1]] @ value[:, : scores.shape[1]]"},
        caught_by="read_cross",
        look=("range", "value"),
        says="as many sources are read as there are readers. The sources are the columns of the scores, and may be "
        "more or fewer.",
    ),
    mistake(
        name="softmax_unstable",
        of=READ,
        change={SOFTMAX: "scores.exp() / scores.exp().sum(-1, keepdim=True)"},
        caught_by="large_scores",
        look=("exp",),
        says="exp overflows for large scores and gives NaN. Subtract the largest score of each row first, or use "
        "softmax.",
    ),
    mistake(
        name="weights_detached",
        of=READ,
        change={SOFTMAX: f"{SOFTMAX}.detach()"},
        caught_by="read_gradients",
        look=("detach", "no_grad", "data", "numpy", "item", "tensor"),
        says="the weights are cut off from the graph, so no gradient reaches the scores, and no scorer could learn.",
    ),
    mistake(
        name="read_in_float32",
        of=READ,
        change={"weights = scores": "scores, value = scores.float(), value.float()\n    weights = scores"},
        caught_by="read_in_float64",
        look=("float", "to", "float32", "type"),
        says="everything is computed in float32, whatever comes in. Keep the dtype of the inputs.",
    ),
]

MASKS = [
    mistake(
        name="mask_ignored",
        of=READ,
        change={MASK: "scores"},
        caught_by="read_mask",
        look=("softmax",),
        says="the mask changes nothing. Where it is True, the score becomes -1e9 before softmax.",
    ),
    mistake(
        name="mask_inverted",
        of=READ,
        change={MASK: "scores.masked_fill(~mask, -1e9)"},
        caught_by="read_mask",
        look=AT_MASK,
        says="the mask is read the wrong way round. True means that this reader must not read this source.",
    ),
    mistake(
        name="mask_after_softmax",
        of=READ,
        change={
            MASK: "scores",
            SOFTMAX: f"({SOFTMAX} if mask is None else {SOFTMAX}.masked_fill(mask, 0))",
        },
        caught_by="read_mask",
        look=(*AT_MASK, "softmax"),
        says="the mask is applied to the weights, after softmax, so the rows no longer sum to 1. Mask the scores, "
        "before softmax.",
    ),
    mistake(
        name="mask_zero",
        of=READ,
        change={MASK: "scores.masked_fill(mask, 0.0)"},
        caught_by="read_mask",
        look=AT_MASK,
        says="masked scores become 0. A score of 0 is a score like any other, and still gets weight; -1e9 gets none.",
    ),
    mistake(
        name="mask_minus_10",
        of=READ,
        change={MASK: "scores.masked_fill(mask, -10.0)"},
        caught_by="read_mask",
        look=AT_MASK,
        says="masked scores become -10, which is too weak: the source is still read. Use -1e9.",
    ),
    mistake(
        name="mask_minus_100",
        of=READ,
        change={MASK: "scores.masked_fill(mask, -100.0)"},
        caught_by="masked_source_is_not_read",
        look=AT_MASK,
        says="masked scores become -100. Scores may lie below that, and then the masked sources are what is read. Use -1e9.",
    ),
    mistake(
        name="mask_added_to_the_score",
        of=READ,
        change={MASK: "scores - 1e3 * mask"},
        caught_by="masked_source_is_not_read",
        look=("where",),
        says="1000 is subtracted from masked scores. A score that is large enough is read all the same; a masked "
        "score becomes -1e9, whatever it was.",
    ),
    mistake(
        name="mask_positive",
        of=READ,
        change={MASK: "scores.masked_fill(mask, 1e9)"},
        caught_by="read_mask",
        look=AT_MASK,
        says="masked scores become +1e9, so masked sources are all that is read. The sign is missing: -1e9.",
    ),
    mistake(
        name="mask_gives_nan",
        of=READ,
        change={MASK: 'scores.masked_fill(mask, float("-inf"))'},
        caught_by="fully_masked_reader",
        look=AT_MASK,
        says="masked scores become -inf, and a reader whose sources are all masked gets NaN. With -1e9 its weights "
        "stay finite.",
    ),
]

THE_QUERY_EFFECT = [
    mistake(
        name="effect_of_scores",
        of=EFFECT,
        change={BEFORE: "scorer(query, key)", AFTER: "scorer(other_query, key)"},
        caught_by="effect_values",
        look=("max", "abs"),
        says="the scores are compared. Scores may move a lot while the weights stay: scores of 1000 and 1001 read "
        "like 0 and 1. Make weights of both first.",
    ),
    mistake(
        name="effect_over_readers",
        of=EFFECT,
        change={BEFORE: "scorer(query, key).softmax(dim=1)", AFTER: "scorer(other_query, key).softmax(dim=1)"},
        caught_by="effect_values",
        look=AT_SOFTMAX,
        says="softmax runs over the readers. A row of the weights is one reader: normalise over the sources, the last "
        "axis.",
    ),
    mistake(
        name="effect_softmax_of_the_difference",
        of=EFFECT,
        change={f"{BEFORE} - {AFTER}": "(scorer(query, key) - scorer(other_query, key)).softmax(dim=-1)"},
        caught_by="effect_values",
        look=AT_SOFTMAX,
        says="the scores are subtracted first, and softmax comes after. Make weights of each, then compare the two.",
    ),
    mistake(
        name="effect_of_one_query_only",
        of=EFFECT,
        change={f" - {AFTER}": ""},
        caught_by="effect_values",
        look=("max", "softmax"),
        says="this is the largest weight of `query`, and `other_query` has no part in it. The change is the "
        "difference of the weights with the one and with the other.",
    ),
    mistake(
        name="effect_is_always_0",
        of=EFFECT,
        change={AFTER: BEFORE},
        caught_by="effect_values",
        look=("softmax", "abs", "max"),
        says="the result is 0 whatever `other_query` is. Ask the scorer once with each of the two queries, and "
        "compare what is read.",
    ),
    mistake(
        name="effect_mean",
        of=EFFECT,
        change={LARGEST: "change.abs().mean()"},
        caught_by="effect_values",
        look=("mean",),
        says="the changes are averaged. Asked for is the largest: one reader that hears the query is enough.",
    ),
    mistake(
        name="effect_sum",
        of=EFFECT,
        change={LARGEST: "change.abs().sum()"},
        caught_by="effect_values",
        look=("sum",),
        says="the changes are added up. Asked for is the largest change of a single weight, which is at most 1.",
    ),
    mistake(
        name="effect_largest_per_reader_averaged",
        of=EFFECT,
        change={LARGEST: "change.abs().amax(dim=-1).mean()"},
        caught_by="effect_values",
        look=("mean",),
        says="the largest change of each reader is taken, and then the average of these. Asked for is the largest "
        "over the whole tensor.",
    ),
    mistake(
        name="effect_norm",
        of=EFFECT,
        change={LARGEST: "change.norm()"},
        caught_by="effect_values",
        look=("norm", "sqrt"),
        says="this is the length of the difference, the root of its summed squares. Asked for is the largest change "
        "of a single weight.",
    ),
    mistake(
        name="effect_signed",
        of=EFFECT,
        change={".abs()": ""},
        caught_by="effect_values",
        look=("max",),
        says="only weights that go one way are counted. A weight that falls has changed, too: take the size of each "
        "difference, without its sign.",
    ),
    mistake(
        name="effect_of_the_first_reader",
        of=EFFECT,
        change={LARGEST: "change[:, 0].abs().max()"},
        caught_by="effect_values",
        look=("max",),
        says="only the first reader of each sequence is looked at. Take the largest change over all readers.",
    ),
    mistake(
        name="effect_of_the_first_sequence",
        of=EFFECT,
        change={LARGEST: "change[0].abs().max()"},
        caught_by="effect_values",
        look=("max",),
        says="only the first sequence of the batch is looked at. Take the largest change over all sequences.",
    ),
]

THE_SHIFT_GAP = [
    mistake(
        name="gap_without_softmax",
        of=GAP,
        change={f"{SHIFTED} - {SOFTMAX}": "(scores + c) - scores"},
        caught_by="shift_of_every_pair",
        look=("max", "abs", "softmax"),
        says="the result is nothing but the largest c: softmax is missing, or c is added after it. Add c to the "
        "scores, make weights of both, then compare.",
    ),
    mistake(
        name="gap_over_readers",
        of=GAP,
        change={SHIFTED: "(scores + c).softmax(dim=1)", f" - {SOFTMAX}": " - scores.softmax(dim=1)"},
        caught_by="shift_of_every_pair",
        look=AT_SOFTMAX,
        says="softmax runs over the readers. A row of the weights is one reader: normalise over the sources, the last "
        "axis.",
    ),
    mistake(
        name="gap_subtracts",
        of=GAP,
        change={"scores + c": "scores - c"},
        caught_by="shift_of_every_pair",
        look=("softmax",),
        says="c is subtracted from the scores. It is added.",
    ),
    mistake(
        name="gap_multiplies",
        of=GAP,
        change={"scores + c": "scores * c"},
        caught_by="shift_of_every_pair",
        look=("softmax",),
        says="the scores are multiplied by c. Stretching a row does change the weights; the question is what adding c "
        "does.",
    ),
    mistake(
        name="gap_is_always_0",
        of=GAP,
        change={f" - {SOFTMAX}": f" - {SHIFTED}"},
        caught_by="shift_of_every_pair",
        look=("softmax", "abs", "max"),
        says="the result is 0 whatever c is. Compare the weights without c with the weights with c; what is changed "
        "in place has changed under both names.",
    ),
    mistake(
        name="gap_mean",
        of=GAP,
        change={LARGEST: "change.abs().mean()"},
        caught_by="shift_of_every_pair",
        look=("mean",),
        says="the changes are averaged. Asked for is the largest change of any weight.",
    ),
    mistake(
        name="gap_sum",
        of=GAP,
        change={LARGEST: "change.abs().sum()"},
        caught_by="shift_of_every_pair",
        look=("sum",),
        says="the changes are added up. Asked for is the largest change of a single weight.",
    ),
    mistake(
        name="gap_of_the_first_sequence",
        of=GAP,
        change={LARGEST: "change[0].abs().max()"},
        caught_by="shift_of_every_pair",
        look=("max",),
        says="only the first sequence of the batch is looked at. Take the largest change over all sequences.",
    ),
    mistake(
        name="gap_signed",
        of=GAP,
        change={".abs()": ""},
        caught_by="shift_of_every_pair",
        look=("max",),
        says="only weights that go one way are counted. A weight that falls has changed, too: take the size of each "
        "difference, without its sign.",
    ),
]

SIDE_BY_SIDE = [
    *(
        mistake(
            name=f"entropy_{base}",
            of=COMPARE,
            change={ENTROPY: f"{ENTROPY} / torch.log(torch.tensor({number}))"},
            caught_by="compare_entropy",
            look=AT_ENTROPY,
            says=f"the logarithm has the base {number:g}{unit}. In nats it is the natural one, base e.",
        )
        for base, number, unit in (("in_bits", 2.0, ", so the entropy is in bits"), ("base_10", 10.0, ""))
    ),
    mistake(
        name="entropy_without_minus",
        of=COMPARE,
        change={ENTROPY: f"-{ENTROPY}"},
        caught_by="compare_entropy",
        look=AT_ENTROPY,
        says="the sign is wrong: the minus in front of the sum is missing. The logarithm of a weight is negative or "
        "0, an entropy is not.",
    ),
    mistake(
        name="entropy_summed_over_readers",
        of=COMPARE,
        change={ENTROPY: "torch.special.entr(weights).sum()"},
        caught_by="compare_entropy",
        look=AT_ENTROPY,
        says="the entropies of all readers are added up. Sum over the sources of each reader, then take the mean over "
        "the readers.",
    ),
    mistake(
        name="entropy_summed_within_sequences",
        of=COMPARE,
        change={ENTROPY: "torch.special.entr(weights).sum(dim=(1, 2)).mean()"},
        caught_by="compare_entropy",
        look=AT_ENTROPY,
        says="the entropies of the readers of a sequence are added up, and only the sequences averaged. Take the mean "
        "over all readers of all sequences.",
    ),
    mistake(
        name="entropy_averaged_over_sources",
        of=COMPARE,
        change={ENTROPY: "torch.special.entr(weights).mean()"},
        caught_by="compare_entropy",
        look=AT_ENTROPY,
        says="the mean runs over the sources as well. The terms of one reader are added up; only then comes the mean "
        "over the readers.",
    ),
    mistake(
        name="entropy_summed_along_readers",
        of=COMPARE,
        change={ENTROPY: "torch.special.entr(weights).sum(dim=1).mean()"},
        caught_by="compare_entropy",
        look=AT_ENTROPY,
        says="the terms are added up along the readers and averaged along the sources. It is the other way round: one "
        "entropy for each reader, summed over its sources.",
    ),
    mistake(
        name="entropy_as_a_share",
        of=COMPARE,
        change={ENTROPY: f"{ENTROPY} / torch.log(torch.tensor(float(weights.shape[-1])))"},
        caught_by="compare_entropy",
        look=AT_ENTROPY,
        says="the entropy is divided by the largest possible one, ln K, which makes it a share. Asked for are nats: "
        "seven equal weights give 1.9459.",
    ),
    mistake(
        name="entropy_of_the_other_query",
        of=COMPARE,
        change={"read(scorer(query, key), value)": "read(scorer(other_query, key), value)"},
        caught_by="compare_entropy",
        look=("read", "softmax"),
        says="the weights are those of `other_query`. Entropy and row sums belong to what `query` reads.",
    ),
    mistake(
        name="entropy_nan_at_0",
        of=COMPARE,
        change={ENTROPY: "-(weights * weights.log()).sum(dim=-1).mean()"},
        caught_by="compare_weights_of_zero",
        look=AT_ENTROPY,
        says="a weight of exactly 0 gives 0 times minus infinity, which is NaN. Such a weight adds 0 to the entropy.",
    ),
    mistake(
        name="row_sums_over_columns",
        of=COMPARE,
        change={ROW_SUM: "(weights.sum(dim=1) - 1).abs().max()"},
        caught_by="compare_row_sum_error",
        look=("sum",),
        says="the columns are summed: how much each source is read by all readers together, which may be anything. A "
        "row is one reader, and sums over the sources.",
    ),
    mistake(
        name="row_sums_without_1",
        of=COMPARE,
        change={ROW_SUM: "weights.sum(dim=-1).abs().max()"},
        caught_by="compare_row_sum_error",
        look=("sum",),
        says="this is the largest row sum itself. Asked for is how far a row sum is from 1.",
    ),
    mistake(
        name="row_sums_of_scores",
        of=COMPARE,
        change={ROW_SUM: "(scorer(query, key).sum(dim=-1) - 1).abs().max()"},
        caught_by="compare_row_sum_error",
        look=("sum",),
        says="the scores are summed. It is the weights of a reader that sum to 1.",
    ),
    mistake(
        name="compare_exchanges_nothing",
        of=COMPARE,
        change={"(scorer, query, other_query, key)": "(scorer, query, query, key)"},
        caught_by="compare_query_effect",
        look=(EFFECT,),
        says="the query effect is 0 for every scorer: is the query exchanged for itself?",
    ),
]

# What a rule, an exception or a shape already tells in its own words.
TOLD_BY_THE_CHECK = [
    mistake(
        name="dot_without_transpose",
        of=DOT,
        change={PRODUCT: "query @ key"},
        caught_by="dot_values",
        told="gap",
        says="key is not transposed, and the widths do not fit.",
    ),
    *(
        mistake(
            name=f"{short}_squeezed",
            of=symbol,
            change={piece: f"{piece}.squeeze()"},
            caught_by=f"{short}_small",
            told="gap",
            says="a bare squeeze takes away every axis of length 1, such as that of a single sequence.",
        )
        for short, symbol, piece in (
            ("dot", DOT, PRODUCT.split(" @ ")[1]),
            ("scaled", SCALED, "dot_product_scores(query, key)"),
            ("additive", ADDITIVE, "self.W_k(key)"),
            ("linear", LINEAR, "(key @ self.b)"),
            ("read", READ, SOFTMAX),
        )
    ),
    mistake(
        name="scaled_detached",
        of=SCALED,
        change={"dot_product_scores(query, key)": "dot_product_scores(query, key).detach()"},
        caught_by="scaled_gradients",
        told="gap",
        says="the scores are cut off from the graph.",
    ),
    mistake(
        name="W_q_for_both",
        of=ADDITIVE,
        change={"self.W_k(key)": "self.W_q(key)"},
        caught_by="additive_values",
        told="gap",
        says="the keys go through W_q, whose width does not fit them.",
    ),
    mistake(
        name="W_q_and_W_k_swapped",
        of=ADDITIVE,
        change={"self.W_q(query)": "self.W_k(query)", "self.W_k(key)": "self.W_q(key)"},
        caught_by="additive_values",
        told="gap",
        says="W_q and W_k have changed places, and the widths do not fit.",
    ),
    mistake(
        name="b_after_v_a",
        of=ADDITIVE,
        change={ADDITIVE_SCORES: "torch.tanh(pairs) @ self.v_a + self.b"},
        caught_by="additive_values",
        told="gap",
        says="b has one number per hidden unit and is added to scores.",
    ),
    mistake(
        name="b_is_no_parameter",
        of=ADDITIVE,
        change={"self.b = nn.Parameter(torch.zeros(dim_hidden))": "self.b = torch.zeros(dim_hidden)"},
        caught_by="additive_values",
        told="gap",
        says="b is a plain tensor, so nothing can be loaded into it or learned.",
    ),
    mistake(
        name="v_a_starts_silent",
        of=ADDITIVE,
        change={"torch.randn(dim_hidden) / dim_hidden**0.5": "torch.zeros(dim_hidden)"},
        caught_by="additive_starts_audible",
        told="gap",
        says="v_a starts with all 0.",
    ),
    mistake(
        name="b_of_linear_starts_silent",
        of=LINEAR,
        change={"torch.randn(dim_k)": "torch.zeros(dim_k)"},
        caught_by="linear_starts_audible",
        told="gap",
        says="b starts with all 0.",
    ),
    mistake(
        name="linear_as_one_layer",
        of=LINEAR,
        change={
            "self.a = nn.Parameter(torch.randn(dim_q))": "self.layer = nn.Linear(dim_q + dim_k, 1)",
            "self.b = nn.Parameter(torch.randn(dim_k))": "",
        },
        caught_by="linear_values",
        told="gap",
        says="there is one nn.Linear, and no a and b.",
    ),
    mistake(
        name="a_and_b_swapped",
        of=LINEAR,
        change={"query @ self.a": "query @ self.b", "key @ self.b": "key @ self.a"},
        caught_by="linear_values",
        told="gap",
        says="a and b have changed places, and the widths do not fit.",
    ),
    mistake(
        name="only_the_output_returned",
        of=READ,
        change={"@ value, weights": "@ value"},
        caught_by="read_output",
        told="gap",
        says="the weights are not returned.",
    ),
    mistake(
        name="mask_in_place",
        of=READ,
        change={MASK: "scores.masked_fill_(mask, -1e9)"},
        caught_by="read_leaves_its_inputs",
        told="gap",
        says="the caller's scores are masked in place.",
    ),
    mistake(
        name="mask_of_full_shape_only",
        of=READ,
        change={MASK: "scores.index_put((mask,), torch.tensor(-1e9, dtype=scores.dtype))"},
        caught_by="read_mask_broadcasts",
        told="gap",
        says="indexing with the mask fails where the mask only broadcasts to the scores.",
    ),
    mistake(
        name="ready_made_read",
        of=READ,
        change={
            "weights @ value,": "nn.functional.scaled_dot_product_attention("
            "scores, torch.eye(scores.shape[-1], dtype=scores.dtype).expand(len(scores), -1, -1), value, scale=1.0),"
        },
        caught_by="read_is_not_ready_made",
        told="gap",
        says="torch's own attention is used.",
    ),
    mistake(
        name="effect_with_query_and_key_swapped",
        of=EFFECT,
        change={BEFORE: "scorer(key, query).softmax(dim=-1)", AFTER: "scorer(key, other_query).softmax(dim=-1)"},
        caught_by="effect_values",
        told="gap",
        says="the scorer gets the key where it expects the query.",
    ),
    mistake(
        name="effect_is_a_tensor",
        of=EFFECT,
        change={f"float({LARGEST})": LARGEST},
        caught_by="effect_is_a_float",
        told="gap",
        says="a tensor comes back.",
    ),
    mistake(
        name="gap_is_a_tensor",
        of=GAP,
        change={f"float({LARGEST})": LARGEST},
        caught_by="shift_is_a_float",
        told="gap",
        says="a tensor comes back.",
    ),
    mistake(
        name="gap_takes_tensors_only",
        of=GAP,
        change={"scores + c": "scores + c.to(scores.dtype)"},
        caught_by="shift_by_one_number",
        told="gap",
        says="c is used as a tensor, and may be a plain number.",
    ),
    mistake(
        name="gap_takes_full_shape_only",
        of=GAP,
        change={"scores + c": "scores + (c.view_as(scores) if isinstance(c, Tensor) else c)"},
        caught_by="shift_of_every_reader",
        told="gap",
        says="c is given the shape of the scores, and may only broadcast to it.",
    ),
    mistake(
        name="gap_in_place",
        of=GAP,
        change={f"{SHIFTED} - {SOFTMAX}": f"{SOFTMAX} - scores.add_(c).softmax(dim=-1)"},
        caught_by="shift_leaves_its_inputs",
        told="gap",
        says="c is added to the caller's scores in place.",
    ),
    mistake(
        name="last_row_only",
        of=COMPARE,
        change={"rows.append(row)": "rows = [row]"},
        caught_by="compare_query_effect",
        told="gap",
        says="each row takes the place of the one before.",
    ),
    mistake(
        name="rows_by_name",
        of=COMPARE,
        change={"return rows": 'return sorted(rows, key=lambda row: row["scorer"])'},
        caught_by="compare_rows",
        told="gap",
        says="the rows are sorted by name; asked for is the order of `scorers`.",
    ),
    mistake(
        name="rows_of_tensors",
        of=COMPARE,
        change={f"float({ENTROPY})": ENTROPY},
        caught_by="compare_rows",
        told="gap",
        says="the table holds tensors.",
    ),
    mistake(
        name="misspelt_key",
        of=COMPARE,
        change={'"row_sum_error"': '"row_sum"'},
        caught_by="compare_row_sum_error",
        told="gap",
        says="a key has another name.",
    ),
]
