"""What goes wrong in Lab 1, as small changes of the reference. Public hand-ins showed most of it; the rest is near at hand.

Each is caught by the check that is meant for it and named where it reproduces a student's output exactly; `make audit` proves
both. The sentences are the student's: what it is, why it is wrong, where to look.
"""

from autograder.diagnose import mistake

READ = "weighted_read"
SINGLE = "scaled_dot_product_two_loop_single"
BATCH = "scaled_dot_product_two_loop_batch"
NO_LOOP = "scaled_dot_product_no_loop_batch"
HEAD = "SelfAttention"
SCORES = "query @ key.transpose(1, 2) * query.shape[-1] ** -0.5"
NO_LOOP_SCALE = "query.shape[-1] ** -0.5"
SOFTMAX = "scores.softmax(dim=-1)"
MASK = "scores.masked_fill(mask, -1e9)"

WEIGHTED_READ = [
    mistake(
        name="read_without_weights",
        of=READ,
        change={"weights @ values": "values.sum(0)"},
        caught_by="worked_example",
        look=("sum",),
        says="the values are added up without their weights. Each source counts as much as its weight says.",
    ),
    mistake(
        name="read_averages",
        of=READ,
        change={"weights @ values": "weights @ values / weights.shape[0]"},
        caught_by="worked_example",
        look=("mean",),
        says="the weighted values are averaged, not added up. The weights already sum to 1: nothing is left to divide by.",
    ),
    mistake(
        name="read_normalises_again",
        of=READ,
        change={"weights @ values": "weights.softmax(0) @ values"},
        caught_by="worked_example",
        look=("softmax",),
        says="softmax is applied to the weights. They are weights already, and are used as they come.",
    ),
]

TWO_LOOPS = [
    *(
        mistake(
            name=f"{short}_no_scale",
            of=symbol,
            change={"query.shape[-1] ** -0.5": "1.0"},
            caught_by=caught,
            look=("softmax", "exp"),
            says="the scores are not scaled. Divide each dot product by the square root of the key's width, √M, before softmax.",
        )
        for short, symbol, caught in (("single", SINGLE, "single_values"), ("batch", BATCH, "batch_values"))
    ),
    *(
        mistake(
            name=f"{short}_scale_by_width",
            of=symbol,
            change={"query.shape[-1] ** -0.5": "1 / query.shape[-1]"},
            caught_by=caught,
            look=("softmax", "exp"),
            says="the scores are divided by M. It is the square root of the width: √M.",
        )
        for short, symbol, caught in (("single", SINGLE, "single_values"), ("batch", BATCH, "batch_values"))
    ),
    *(
        mistake(
            name=f"{short}_scale_by_length",
            of=symbol,
            change={"query.shape[-1] ** -0.5": "key.shape[-2] ** -0.5"},
            caught_by=caught,
            look=("sqrt", "softmax", "exp"),
            says="the scores are divided by √K, the length of the sequence. What counts is the width of a key, √M: "
            "a dot product adds up M terms.",
        )
        for short, symbol, caught in (("single", SINGLE, "single_values"), ("batch", BATCH, "batch_values"))
    ),
    mistake(
        name="single_reads_the_keys",
        of=SINGLE,
        change={"weights @ value)": "weights @ key)"},
        caught_by="single_values",
        says="the weights mix the keys, not the values. Keys decide how much is read, values are what is read.",
    ),
    mistake(
        name="single_no_softmax",
        of=SINGLE,
        change={"torch.stack(scores).softmax(dim=0)": "torch.stack(scores)"},
        caught_by="single_values",
        says="the scores are used as weights directly. Softmax over the sources turns them into weights that sum to 1.",
    ),
    mistake(
        name="batch_reads_the_keys",
        of=BATCH,
        change={"weights @ value[n]": "weights @ key[n]"},
        caught_by="batch_values",
        says="the weights mix the keys, not the values. Keys decide how much is read, values are what is read.",
    ),
    mistake(
        name="batch_reads_the_first_sequence",
        of=BATCH,
        change={"weights @ value[n]": "weights @ value[0]"},
        caught_by="batch_values",
        says="every sequence reads the values of sequence 0. Sequence n reads within sequence n.",
    ),
]

NO_LOOPS = [
    mistake(
        name="softmax_over_readers",
        of=NO_LOOP,
        change={SOFTMAX: "scores.softmax(dim=1)"},
        caught_by="no_loop_output",
        look=("softmax", "log_softmax", "exp"),
        says="softmax runs over the readers (dim=1). A row of the weights is one reader: normalise over the sources, the "
        "last axis.",
    ),
    mistake(
        name="softmax_over_sequences",
        of=NO_LOOP,
        change={SOFTMAX: "scores.softmax(dim=0)"},
        caught_by="no_loop_output",
        look=("softmax", "log_softmax", "exp"),
        says="softmax runs over the sequences of the batch (dim=0), so they compete with each other. Normalise over the "
        "sources, the last axis.",
    ),
    mistake(
        name="softmax_over_everything",
        of=NO_LOOP,
        change={SOFTMAX: "scores.flatten(1).softmax(dim=-1).view_as(scores)"},
        caught_by="no_loop_output",
        look=("softmax", "log_softmax", "exp"),
        says="softmax runs over all pairs of a sequence at once, so that the whole matrix sums to 1. Each row, one reader, "
        "sums to 1 by itself.",
    ),
    mistake(
        name="no_softmax",
        of=NO_LOOP,
        change={SOFTMAX: "scores"},
        caught_by="no_loop_output",
        look=("matmul", "bmm", "einsum"),
        says="the scores are used as weights directly. Softmax over the sources turns them into weights that sum to 1.",
    ),
    mistake(
        name="no_scale",
        of=NO_LOOP,
        change={" * query.shape[-1] ** -0.5": ""},
        caught_by="no_loop_output",
        look=("softmax", "log_softmax", "exp"),
        says="the scores are not scaled. Divide them by the square root of the key's width, √M, before softmax.",
    ),
    mistake(
        name="scale_by_width",
        of=NO_LOOP,
        change={NO_LOOP_SCALE: "1 / query.shape[-1]"},
        caught_by="no_loop_output",
        look=("sqrt", "softmax", "exp"),
        says="the scores are divided by M. It is the square root of the width: √M.",
    ),
    mistake(
        name="scale_by_length",
        of=NO_LOOP,
        change={NO_LOOP_SCALE: "key.shape[1] ** -0.5"},
        caught_by="no_loop_output",
        look=("sqrt", "softmax", "exp"),
        says="the scores are divided by √K, the number of sources. What counts is the width of a key, √M: a dot product adds "
        "up M terms.",
    ),
    mistake(
        name="scale_multiplied",
        of=NO_LOOP,
        change={NO_LOOP_SCALE: "query.shape[-1] ** 0.5"},
        caught_by="no_loop_output",
        look=("sqrt", "softmax", "exp"),
        says="the scores are multiplied by √M. They are divided by it: wide keys give large dot products.",
    ),
    mistake(
        name="scale_after_softmax",
        of=NO_LOOP,
        change={" * query.shape[-1] ** -0.5": "", SOFTMAX: "scores.softmax(dim=-1) * query.shape[-1] ** -0.5"},
        caught_by="no_loop_output",
        look=("softmax", "log_softmax", "exp"),
        says="the scale comes after softmax, so the rows no longer sum to 1. Scale the scores, before softmax.",
    ),
    mistake(
        name="reads_the_keys",
        of=NO_LOOP,
        change={"weights_softmax @ value": "weights_softmax @ key"},
        caught_by="no_loop_output",
        look=("matmul", "bmm", "einsum"),
        says="the weights mix the keys, not the values. Keys decide how much is read, values are what is read.",
    ),
    mistake(
        name="scores_before_softmax_returned",
        of=NO_LOOP,
        change={"@ value, weights_softmax": "@ value, scores"},
        caught_by="no_loop_weights",
        look=("softmax",),
        says="the second value is the scores before softmax. Return the weights with which the values were read.",
    ),
    mistake(
        name="mask_ignored",
        of=NO_LOOP,
        change={MASK: "scores"},
        caught_by="mask_values",
        look=("softmax",),
        says="the mask changes nothing. Where it is True, the score becomes -1e9 before softmax.",
    ),
    mistake(
        name="mask_inverted",
        of=NO_LOOP,
        change={MASK: "scores.masked_fill(~mask, -1e9)"},
        caught_by="mask_values",
        look=("masked_fill", "where", "logical_not"),
        says="the mask is read the wrong way round. True means that this reader must not read this source.",
    ),
    mistake(
        name="mask_after_softmax",
        of=NO_LOOP,
        change={
            MASK: "scores",
            SOFTMAX: "(scores.softmax(dim=-1) if mask is None else scores.softmax(dim=-1).masked_fill(mask, 0))",
        },
        caught_by="mask_values",
        look=("masked_fill", "where", "softmax"),
        says="the mask is applied to the weights, after softmax, so the rows no longer sum to 1. Mask the scores, before "
        "softmax.",
    ),
    mistake(
        name="mask_zero",
        of=NO_LOOP,
        change={MASK: "scores.masked_fill(mask, 0.0)"},
        caught_by="mask_values",
        look=("masked_fill", "where"),
        says="masked scores become 0. A score of 0 is a score like any other, and still gets weight; -1e9 gets none.",
    ),
    mistake(
        name="mask_too_weak",
        of=NO_LOOP,
        change={MASK: "scores.masked_fill(mask, -10.0)"},
        caught_by="masked_source_is_not_read",
        look=("masked_fill", "where"),
        says="masked scores become -10, which is too weak: the source is still read a little. Use -1e9.",
    ),
    mistake(
        name="mask_gives_nan",
        of=NO_LOOP,
        change={MASK: 'scores.masked_fill(mask, float("-inf"))'},
        caught_by="fully_masked_reader",
        look=("masked_fill", "where"),
        says="masked scores become -inf, and a reader whose sources are all masked gets NaN. With -1e9 its weights stay finite.",
    ),
    mistake(
        name="mask_positive",
        of=NO_LOOP,
        change={MASK: "scores.masked_fill(mask, 1e9)"},
        caught_by="mask_values",
        look=("masked_fill", "where"),
        says="masked scores become +1e9, so masked sources are all that is read. The sign is missing: -1e9.",
    ),
    mistake(
        name="softmax_unstable",
        of=NO_LOOP,
        change={SOFTMAX: "scores.exp() / scores.exp().sum(-1, keepdim=True)"},
        caught_by="large_scores",
        look=("exp",),
        says="exp overflows for large scores and gives NaN. Subtract the largest score of each row first, or use softmax.",
    ),
    mistake(
        name="weights_detached",
        of=NO_LOOP,
        change={SOFTMAX: "scores.softmax(dim=-1).detach()"},
        caught_by="no_loop_gradients",
        look=("detach", "no_grad", "data", "numpy"),
        says="the weights are cut off from the graph, so no gradient reaches query and key.",
    ),
    mistake(
        name="float32_inside",
        of=NO_LOOP,
        change={
            "scores = query @": "query, key, value = query.float(), key.float(), value.float()\n    scores = query @"
        },
        caught_by="float64_in_float64_out",
        look=("float", "to", "float32", "type"),
        says="everything is computed in float32, whatever comes in. Keep the dtype of the inputs.",
    ),
]

# What a rule or an exception already tells in its own words.
TOLD_BY_THE_CHECK = [
    mistake(
        name="single_without_a_loop",
        of=SINGLE,
        change={
            "    for reader in query:  # (M,)\n        scores = []\n        for source in key:  # (M,)\n"
            "            scores.append(reader @ source * scale)\n"
            "        weights = torch.stack(scores).softmax(dim=0)  # (K,)\n"
            "        rows.append(weights @ value)  # (Dv,)\n"
            "    return torch.stack(rows)": "    return (query @ key.T * scale).softmax(dim=-1) @ value"
        },
        caught_by="single_is_written_with_loops",
        told="gap",
        says="there is no loop: this part is the slow version.",
    ),
    mistake(
        name="single_with_three_loops",
        of=SINGLE,
        change={"reader @ source * scale": "sum(a * b for a, b in zip(reader, source)) * scale"},
        caught_by="single_is_written_with_loops",
        told="gap",
        says="three loops stand inside each other.",
    ),
    mistake(
        name="batch_without_a_loop",
        of=BATCH,
        change={
            "    sequences = []\n    for n in range(query.shape[0]):\n        rows = []\n"
            "        for reader in query[n]:  # (M,)\n"
            "            weights = (key[n] @ reader * scale).softmax(dim=0)  # (K,)\n"
            "            rows.append(weights @ value[n])  # (Dv,)\n"
            "        sequences.append(torch.stack(rows))  # (K, Dv)\n"
            "    return torch.stack(sequences)": "    return (query @ key.mT * scale).softmax(dim=-1) @ value"
        },
        caught_by="batch_is_written_with_loops",
        told="gap",
        says="there is no loop: this part is the slow version.",
    ),
    mistake(
        name="batch_with_three_loops",
        of=BATCH,
        change={"(key[n] @ reader * scale)": "(torch.stack([source @ reader for source in key[n]]) * scale)"},
        caught_by="batch_is_written_with_loops",
        told="gap",
        says="three loops stand inside each other.",
    ),
    mistake(
        name="loop_in_no_loop",
        of=NO_LOOP,
        change={"scores.softmax(dim=-1)": "torch.stack([row.softmax(dim=-1) for row in scores])"},
        caught_by="written_without_a_loop",
        told="gap",
        says="there is a loop in the part that must have none.",
    ),
    mistake(
        name="ready_made_attention",
        of=NO_LOOP,
        change={
            "return weights_softmax @ value,": "return nn.functional.scaled_dot_product_attention(query, key, value, "
            "None if mask is None else ~mask),"
        },
        caught_by="attention_is_not_ready_made",
        told="gap",
        says="torch's own attention is used.",
    ),
    mistake(
        name="query_scaled_in_place",
        of=NO_LOOP,
        change={
            "scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5": "query *= query.shape[-1] ** -0.5\n"
            "    scores = query @ key.transpose(1, 2)"
        },
        caught_by="inputs_stay_as_they_are",
        told="gap",
        says="the query is scaled in place, so the caller's tensor changes.",
    ),
    mistake(
        name="mask_of_full_shape_only",
        of=NO_LOOP,
        change={MASK: "scores.index_put((mask,), torch.tensor(-1e9, dtype=scores.dtype))"},
        caught_by="mask_broadcasts",
        told="gap",
        says="indexing with the mask fails where the mask only broadcasts to the scores.",
    ),
    mistake(
        name="squeezed",
        of=NO_LOOP,
        change={"scores = query @": "query = query.squeeze()\n    scores = query @"},
        caught_by="no_loop_small",
        told="gap",
        says="squeeze takes away the batch axis where there is one sequence.",
    ),
]

HEADS = [
    mistake(
        name="one_projection_for_all",
        of=HEAD,
        change={"self.q(query), self.k(key), self.v(value)": "self.q(query), self.q(key), self.v(value)"},
        caught_by="head_values",
        look=("q",),
        says="`q` projects the keys as well. Queries go through `q`, keys through `k`, values through `v`.",
    ),
    mistake(
        name="q_and_k_swapped",
        of=HEAD,
        change={"self.q(query), self.k(key), self.v(value)": "self.k(query), self.q(key), self.v(value)"},
        caught_by="head_values",
        look=("k", "q"),
        says="`q` and `k` have changed places. Queries go through `q`, keys through `k`.",
    ),
    mistake(
        name="value_not_projected_from_value",
        of=HEAD,
        change={"self.q(query), self.k(key), self.v(value)": "self.q(query), self.k(key), self.v(key)"},
        caught_by="head_values",
        look=("v",),
        says="`v` projects the key. Values come from the value that is passed in.",
    ),
    mistake(
        name="everything_from_query",
        of=HEAD,
        change={"self.q(query), self.k(key), self.v(value)": "self.q(query), self.k(query), self.v(query)"},
        caught_by="head_values",
        look=("q", "k", "v"),
        says="queries, keys and values are all made from `query`. The readers may be another sequence than the sources: "
        "`k` projects key, `v` projects value.",
    ),
    mistake(
        name="head_scaled_twice",
        of=HEAD,
        change={"self.q(query), self.k(key)": "self.q(query) * self.q.out_features**-0.5, self.k(key)"},
        caught_by="head_values",
        look=("sqrt", "q"),
        says="the scores are scaled twice: once here and once in the attention that is called.",
    ),
    mistake(
        name="head_drops_the_mask",
        of=HEAD,
        change={"self.v(value), mask)": "self.v(value), None)"},
        caught_by="head_passes_the_mask",
        look=(NO_LOOP,),
        says="the mask does not arrive: it is not passed on to the attention.",
    ),
    mistake(
        name="head_forgets_its_weights",
        of=HEAD,
        change={"y, self.weights_softmax = scaled": "y, _ = scaled"},
        caught_by="head_keeps_its_weights",
        look=(NO_LOOP,),
        says="the weights are not kept. forward leaves them in `self.weights_softmax`.",
    ),
    mistake(
        name="one_sided_start",
        of=HEAD,
        change={"(projection.weight, -limit, limit)": "(projection.weight, 0.0, limit)"},
        caught_by="head_starts_uniform",
        look=("uniform_", "rand", "rand_like"),
        says="the weights start between 0 and the limit. They start on both sides of 0: uniform in ±√(6 / (D_in + D_out)).",
    ),
    mistake(
        name="default_start",
        of=HEAD,
        change={"nn.init.uniform_(projection.weight, -limit, limit)": "limit * 1"},
        caught_by="head_starts_uniform",
        says="the weights start as nn.Linear leaves them. Draw them uniform in ±√(6 / (D_in + D_out)).",
    ),
    mistake(
        name="v_starts_by_default",
        of=HEAD,
        change={"(self.q, self.k, self.v):": "(self.q, self.k):"},
        caught_by="head_starts_uniform",
        look=("uniform_",),
        says="`v` is left out of the initialisation. All three projections start uniform in ±√(6 / (D_in + D_out)).",
    ),
]

WHO_READS_WHOM = [
    mistake(
        name="reads_transposed",
        of="reads",
        change={"return edges": "return edges.T"},
        caught_by="reads_follows_the_edges",
        look=("transpose", "T", "stack"),
        says="rows and columns have changed places. Row i is the output position, the one that reads; column j is the input.",
    ),
]
