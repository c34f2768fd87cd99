"""What goes wrong in Lab 3, as small changes of the reference.

Each is caught by the check that is meant for it and named where it reproduces a student's output exactly; `make audit` proves
both. The sentences are the student's: what it is, why it is wrong, where to look.
"""

from autograder.diagnose import mistake

FFN = "FeedForwardBlock"
NORM = "LayerNormalization"
BLOCK = "EncoderBlock"
STACK = "Encoder"
DROP = "dropout_with_mask"
GAP = "dropout_permutation_gap"

RELU = "torch.relu(self.linear1(x))"
SECOND_LAYER = "self.linear2(hidden)"

CENTRED = "x - x.mean(dim=-1, keepdim=True)"
VARIANCE = "centred.square().mean(dim=-1, keepdim=True)"
ROOT = "torch.sqrt(variance + self.epsilon)"
PLAIN = f"centred / {ROOT}"
SCALED = f"{PLAIN} * self.gamma + self.beta"

READ = "self.attention(x, x, x, mask)"
DIGESTED = "self.feedforward(u)"
FIRST = f"self.norm1(x + self.dropout({READ}))"
SECOND = f"self.norm2(u + self.dropout({DIGESTED}))"
OWN_NORM2 = "self.norm2 = LayerNormalization(emb_dim)"
OWN_DROPOUT = "self.dropout = nn.Dropout(dropout)"
SHARE = "self.attention = MultiHeadAttention(num_heads, emb_dim, emb_dim // num_heads)"

LAYER = "x = layer(x, mask)"
EACH_LAYER = "for layer in self.layers:"
ALL_LAYERS = "EncoderBlock(num_heads, emb_dim, feedforward_dim, dropout) for _ in range(num_layers)"

DROPPED = "x * keep / (1 - p)"

MASK = "keep[:, permutation] if permute_mask else keep"
REORDERED_INPUT = "dropout_with_mask(x[:, permutation], mask, p)"
REORDERED_OUTPUT = "dropout_with_mask(x, keep, p)[:, permutation]"
LARGEST = "difference.abs().max()"

AT_RELU = ("relu", "ReLU", "clamp", "gelu", "GELU", "sigmoid", "Sigmoid")
AT_MEAN = ("mean", "var", "var_mean", "sum")
AT_ROOT = ("sqrt", "rsqrt", "pow")
AT_START = ("Parameter", "zeros", "ones", "rand", "randn")
AT_ABS = ("max", "abs", "amax")

DIGEST = [
    mistake(
        name="relu_missing",
        of=FFN,
        change={RELU: "self.linear1(x)"},
        caught_by="ffn_relu",
        look=("linear2",),
        says="there is no ReLU. Without one between them, two linear layers are together only one linear layer.",
    ),
    mistake(
        name="relu_at_the_end",
        of=FFN,
        change={RELU: "self.linear1(x)", SECOND_LAYER: "torch.relu(self.linear2(hidden))"},
        caught_by="ffn_relu",
        look=AT_RELU,
        says="ReLU comes after `linear2`. It belongs between the two layers; the output may be negative.",
    ),
    mistake(
        name="relu_twice",
        of=FFN,
        change={SECOND_LAYER: "torch.relu(self.linear2(hidden))"},
        caught_by="ffn_relu",
        look=AT_RELU,
        says="there is a second ReLU, after `linear2`. There is only one, between the layers; the output may be "
        "negative.",
    ),
    mistake(
        name="relu_before_linear1",
        of=FFN,
        change={RELU: "self.linear1(torch.relu(x))"},
        caught_by="ffn_relu",
        look=AT_RELU,
        says="ReLU is applied to x, before `linear1`. It belongs between the two layers.",
    ),
    mistake(
        name="gelu",
        of=FFN,
        change={RELU: "nn.functional.gelu(self.linear1(x))"},
        caught_by="ffn_relu",
        look=AT_RELU,
        says="GELU stands between the layers. This network has ReLU there: negative numbers become exactly 0.",
    ),
    mistake(
        name="sigmoid",
        of=FFN,
        change={RELU: "torch.sigmoid(self.linear1(x))"},
        caught_by="ffn_layers",
        look=AT_RELU,
        says="a sigmoid stands between the layers. This network has ReLU there: positive numbers pass as they are.",
    ),
    mistake(
        name="linear2_unused",
        of=FFN,
        change={SECOND_LAYER: "hidden"},
        caught_by="ffn_layers",
        says="`linear2` is not used, so the output keeps the width of the hidden layer. `linear2` brings it back to "
        "`inp_dim`.",
    ),
    mistake(
        name="residual_inside",
        of=FFN,
        change={SECOND_LAYER: "x + self.linear2(hidden)"},
        caught_by="ffn_layers",
        look=("linear2",),
        says="x is added to the output. The sum belongs to the block (TODO 3.3); the feed-forward network is only the "
        "two layers.",
    ),
    mistake(
        name="ffn_cut_off",
        of=FFN,
        change={RELU: f"{RELU}.detach()"},
        caught_by="ffn_gradients",
        look=("detach", "no_grad", "data", "numpy"),
        says="the hidden layer is cut off from the graph, so no gradient reaches x and `linear1`.",
    ),
    mistake(
        name="ffn_float32_output",
        of=FFN,
        change={"return y  #": "return y.float()  #"},
        caught_by="ffn_in_float64",
        look=("float", "to", "float32", "type"),
        says="the output is turned into float32, whatever comes in. Keep the dtype of the input.",
    ),
]

OVER_WHAT = [
    mistake(
        name="norm_over_positions",
        of=NORM,
        change={CENTRED: "x - x.mean(dim=1, keepdim=True)", VARIANCE: "centred.square().mean(dim=1, keepdim=True)"},
        caught_by="norm_over_features",
        look=AT_MEAN,
        says="mean and variance are taken over the positions (dim=1), so the positions mix. Each position has its own, "
        "over its M features: the last axis.",
    ),
    mistake(
        name="norm_over_sequences",
        of=NORM,
        change={CENTRED: "x - x.mean(dim=0, keepdim=True)", VARIANCE: "centred.square().mean(dim=0, keepdim=True)"},
        caught_by="norm_over_features",
        look=AT_MEAN,
        says="mean and variance are taken over the sequences of the batch (dim=0). That would be a batch norm. Each position "
        "has its own, over its M features: the last axis.",
    ),
    mistake(
        name="norm_over_positions_and_features",
        of=NORM,
        change={
            CENTRED: "x - x.mean(dim=(1, 2), keepdim=True)",
            VARIANCE: "centred.square().mean(dim=(1, 2), keepdim=True)",
        },
        caught_by="norm_over_features",
        look=AT_MEAN,
        says="a sequence has one mean and one variance for all its positions. Each position has its own, over its M "
        "features only.",
    ),
    mistake(
        name="norm_over_everything",
        of=NORM,
        change={CENTRED: "x - x.mean()", VARIANCE: "centred.square().mean()"},
        caught_by="norm_over_features",
        look=AT_MEAN,
        says="there is one mean and one variance for the whole batch. Each position has its own, over its M features: "
        "the last axis.",
    ),
    mistake(
        name="mean_not_subtracted",
        of=NORM,
        change={PLAIN: f"x / {ROOT}"},
        caught_by="norm_over_features",
        look=AT_ROOT,
        says="the mean is not subtracted before the division. What is divided is x − μ.",
    ),
    mistake(
        name="mean_not_subtracted_at_all",
        of=NORM,
        change={CENTRED: "x"},
        caught_by="norm_over_features",
        look=AT_MEAN,
        says="the mean is subtracted neither from x nor inside the variance. Both use x − μ.",
    ),
    mistake(
        name="mean_missing_in_variance",
        of=NORM,
        change={VARIANCE: "x.square().mean(dim=-1, keepdim=True)"},
        caught_by="norm_over_features",
        look=AT_MEAN,
        says="the variance is the mean of x². It is the mean of (x − μ)², the squared distance from the mean.",
    ),
    mistake(
        name="only_centred",
        of=NORM,
        change={PLAIN: "centred"},
        caught_by="norm_over_features",
        says="the mean is subtracted, but nothing is divided by the spread √(σ² + ε).",
    ),
    mistake(
        name="divided_by_variance",
        of=NORM,
        change={ROOT: "(variance + self.epsilon)"},
        caught_by="norm_over_features",
        look=AT_MEAN,
        says="x − μ is divided by the variance. It is divided by its root, √(σ² + ε).",
    ),
    mistake(
        name="unbiased_variance",
        of=NORM,
        change={VARIANCE: "centred.square().sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)"},
        caught_by="norm_variance",
        look=("var", "var_mean", "sum"),
        says="the variance is divided by M − 1. Layer norm divides by M (the biased variance); torch's `var` divides by M − 1 "
        "unless told otherwise.",
    ),
]

SCALE_AND_SHIFT = [
    mistake(
        name="gamma_missing",
        of=NORM,
        change={" * self.gamma": ""},
        caught_by="norm_gamma_beta",
        look=AT_ROOT,
        says="`gamma` is not used. Each normalised feature is multiplied by its own γ.",
    ),
    mistake(
        name="beta_missing",
        of=NORM,
        change={" + self.beta": ""},
        caught_by="norm_gamma_beta",
        says="`beta` is not used. Each feature is shifted by its own β, after γ.",
    ),
    mistake(
        name="gamma_and_beta_missing",
        of=NORM,
        change={" * self.gamma + self.beta": ""},
        caught_by="norm_gamma_beta",
        look=AT_ROOT,
        says="`gamma` and `beta` are not used. Each normalised feature is multiplied by its γ, then shifted by its β.",
    ),
    mistake(
        name="beta_scaled_too",
        of=NORM,
        change={SCALED: f"({PLAIN} + self.beta) * self.gamma"},
        caught_by="norm_gamma_beta",
        says="`beta` is added before `gamma` is multiplied, so the shift is scaled as well. First γ, then β.",
    ),
    mistake(
        name="gamma_and_beta_swapped",
        of=NORM,
        change={" * self.gamma + self.beta": " * self.beta + self.gamma"},
        caught_by="norm_over_features",
        says="`gamma` and `beta` have changed places: untrained, with β = 0, the output is 1 everywhere. γ "
        "multiplies, β is added.",
    ),
    mistake(
        name="gamma_starts_at_zero",
        of=NORM,
        change={"torch.ones(emb_dim)": "torch.zeros(emb_dim)"},
        caught_by="norm_starts_plain",
        look=AT_START,
        says="`gamma` starts at 0, and wipes out everything that comes in. It starts at 1.",
    ),
    mistake(
        name="beta_starts_at_one",
        of=NORM,
        change={"torch.zeros(emb_dim)": "torch.ones(emb_dim)"},
        caught_by="norm_starts_plain",
        look=AT_START,
        says="`beta` starts at 1. It starts at 0, so that the untrained norm shifts nothing.",
    ),
    mistake(
        name="gamma_and_beta_drawn",
        of=NORM,
        change={"torch.ones(emb_dim)": "torch.randn(emb_dim)", "torch.zeros(emb_dim)": "torch.randn(emb_dim)"},
        caught_by="norm_starts_plain",
        look=AT_START,
        says="`gamma` and `beta` start at random. They start at 1 and 0: an untrained norm neither scales nor shifts.",
    ),
]

EPSILON = [
    mistake(
        name="epsilon_added_to_sigma",
        of=NORM,
        change={ROOT: "(torch.sqrt(variance) + self.epsilon)"},
        caught_by="norm_epsilon",
        look=AT_ROOT,
        says="`epsilon` is added to σ, after the root. It is added to the variance, inside the root.",
    ),
    mistake(
        name="epsilon_without_effect",
        of=NORM,
        change={ROOT: "torch.sqrt(variance)"},
        caught_by="norm_epsilon",
        look=AT_ROOT,
        says="the `epsilon` that is passed in has no effect. It is added to the variance, inside the root; without it a "
        "position of equal features becomes 0 / 0 = NaN.",
    ),
    mistake(
        name="epsilon_of_its_own",
        of=NORM,
        change={"self.epsilon = epsilon": "self.epsilon = 1e-5"},
        caught_by="norm_epsilon",
        look=("epsilon", "eps"),
        says="epsilon is always 1e-5. Use the `epsilon` that is passed in.",
    ),
    mistake(
        name="epsilon_added_to_the_quotient",
        of=NORM,
        change={SCALED: "(centred / torch.sqrt(variance) + self.epsilon) * self.gamma + self.beta"},
        caught_by="norm_epsilon",
        look=AT_ROOT,
        says="`epsilon` is added to the quotient, after the division. It is added to the variance, inside the root: mind the "
        "brackets.",
    ),
]

NORM_CONVENTIONS = [
    mistake(
        name="statistics_cut_off",
        of=NORM,
        change={CENTRED: "x - x.mean(dim=-1, keepdim=True).detach()", VARIANCE: f"{VARIANCE}.detach()"},
        caught_by="norm_gradients",
        look=("detach", "no_grad", "data", "item", "numpy"),
        says="mean and variance are cut off from the graph. They depend on x, and the gradient passes through them.",
    ),
    mistake(
        name="norm_float32_inside",
        of=NORM,
        change={"centred = x -": "x = x.float()\n        centred = x -"},
        caught_by="norm_in_float64",
        look=("float", "to", "float32", "type"),
        says="everything is computed in float32, whatever comes in. Keep the dtype of the input.",
    ),
]

ORDER_OF_PARTS = [
    mistake(
        name="attention_unused",
        of=BLOCK,
        change={FIRST: "self.norm1(x)"},
        caught_by="block_reads_and_digests",
        says="nothing is read: the output of `attention` does not take part. It is added to x before `norm1`.",
    ),
    mistake(
        name="feedforward_unused",
        of=BLOCK,
        change={SECOND: "self.norm2(u)"},
        caught_by="block_reads_and_digests",
        says="nothing is digested: the output of `feedforward` does not take part. It is added to U before `norm2`.",
    ),
    mistake(
        name="first_residual_missing",
        of=BLOCK,
        change={FIRST: f"self.norm1(self.dropout({READ}))"},
        caught_by="block_values",
        look=("norm1",),
        says="the first sum is missing: what was read replaces the old state. It is added to it, H + MHA(H), before "
        "`norm1`.",
    ),
    mistake(
        name="second_residual_missing",
        of=BLOCK,
        change={SECOND: f"self.norm2(self.dropout({DIGESTED}))"},
        caught_by="block_values",
        look=("norm2",),
        says="the second sum is missing: what was digested replaces U. It is added to it, U + FFN(U), before `norm2`.",
    ),
    mistake(
        name="second_residual_from_x",
        of=BLOCK,
        change={SECOND: f"self.norm2(x + self.dropout({DIGESTED}))"},
        caught_by="block_values",
        look=("norm2",),
        says="the second sum adds the block's input x. It adds U, what came out of `norm1`.",
    ),
    mistake(
        name="digests_x",
        of=BLOCK,
        change={DIGESTED: "self.feedforward(x)"},
        caught_by="block_values",
        look=("feedforward",),
        says="`feedforward` gets the block's input x. It digests U, what came out of `norm1`.",
    ),
    mistake(
        name="digests_and_keeps_x",
        of=BLOCK,
        change={SECOND: "self.norm2(x + self.dropout(self.feedforward(x)))"},
        caught_by="block_reads_and_digests",
        look=("feedforward",),
        says="the second half starts again from x, so what was read is lost. It takes U, what came out of `norm1`, both for "
        "`feedforward` and for the sum.",
    ),
    mistake(
        name="norm1_for_both",
        of=BLOCK,
        change={SECOND: SECOND.replace("norm2", "norm1")},
        caught_by="block_values",
        look=("norm1",),
        says="`norm1` is used for both sums, `norm2` for none. The second sum goes through `norm2`, which has a γ and "
        "β of its own.",
    ),
    mistake(
        name="norm2_for_both",
        of=BLOCK,
        change={FIRST: FIRST.replace("norm1", "norm2")},
        caught_by="block_values",
        look=("norm2",),
        says="`norm2` is used for both sums, `norm1` for none. The first sum goes through `norm1`, which has a γ and "
        "β of its own.",
    ),
    mistake(
        name="norms_swapped",
        of=BLOCK,
        change={FIRST: FIRST.replace("norm1", "norm2"), SECOND: SECOND.replace("norm2", "norm1")},
        caught_by="block_values",
        look=("norm2",),
        says="`norm1` and `norm2` have changed places. `norm1` follows the attention, `norm2` the feed-forward "
        "network.",
    ),
    mistake(
        name="one_norm_in_two_places",
        of=BLOCK,
        change={OWN_NORM2: "self.norm2 = self.norm1"},
        caught_by="block_values",
        look=("norm2",),
        says="`norm1` and `norm2` are one and the same object, so they share γ and β. Make two.",
    ),
    mistake(
        name="first_norm_twice",
        of=BLOCK,
        change={FIRST: f"self.norm1({FIRST})"},
        caught_by="block_values",
        look=("norm1",),
        says="`norm1` is applied twice in a row. Once after each sum is enough.",
    ),
    mistake(
        name="first_norm_missing",
        of=BLOCK,
        change={FIRST: f"x + self.dropout({READ})"},
        caught_by="block_values",
        look=("attention",),
        says="the first sum is not normalised. `norm1` stands around it, before the feed-forward network.",
    ),
    mistake(
        name="last_norm_missing",
        of=BLOCK,
        change={SECOND: f"u + self.dropout({DIGESTED})"},
        caught_by="block_values",
        look=("feedforward",),
        says="the second sum is not normalised. `norm2` stands around it; its output is the block's output.",
    ),
    mistake(
        name="pre_norm",
        of=BLOCK,
        change={
            FIRST: "self.norm1(x)\n        u = x + self.dropout(self.attention(u, u, u, mask))",
            SECOND: "u + self.dropout(self.feedforward(self.norm2(u)))",
        },
        caught_by="block_values",
        look=("norm1",),
        says="each norm comes before its part (pre-norm). This block is post-norm: the part, then the sum, then the norm "
        "around the sum.",
    ),
    mistake(
        name="norm_before_the_sum",
        of=BLOCK,
        change={
            FIRST: f"x + self.norm1(self.dropout({READ}))",
            SECOND: f"u + self.norm2(self.dropout({DIGESTED}))",
        },
        caught_by="block_values",
        look=("norm1",),
        says="the norms see only what is added; the sum comes after. First the sum, then the norm around it.",
    ),
    mistake(
        name="heads_too_wide",
        of=BLOCK,
        change={SHARE: "self.attention = MultiHeadAttention(num_heads, emb_dim, emb_dim)"},
        caught_by="block_has_its_parts",
        look=("MultiHeadAttention",),
        says="each head is as wide as the whole state. The heads share the features: `emb_dim // num_heads` for each.",
    ),
]

IN_THE_BLOCK = [
    mistake(
        name="block_drops_the_mask",
        of=BLOCK,
        change={READ: "self.attention(x, x, x)"},
        caught_by="block_passes_the_mask",
        look=("attention",),
        says="the mask does not arrive: it is not handed to `attention`.",
    ),
    mistake(
        name="block_inverts_the_mask",
        of=BLOCK,
        change={READ: "self.attention(x, x, x, None if mask is None else ~mask)"},
        caught_by="block_passes_the_mask",
        look=("attention", "logical_not"),
        says="the mask is turned round before it is handed to `attention`. Hand it on as it is: True means *must not "
        "read*.",
    ),
    mistake(
        name="dropout_missing",
        of=BLOCK,
        change={f"self.dropout({READ})": READ, f"self.dropout({DIGESTED})": DIGESTED},
        caught_by="block_drops_what_is_added",
        says="`dropout` is not used. It acts on what the attention and the feed-forward network add, before each sum.",
    ),
    mistake(
        name="dropout_first_only",
        of=BLOCK,
        change={f"self.dropout({DIGESTED})": DIGESTED},
        caught_by="block_drops_what_is_added",
        look=("feedforward",),
        says="dropout acts on what the attention adds, but not on what the feed-forward network adds. It acts on both.",
    ),
    mistake(
        name="dropout_second_only",
        of=BLOCK,
        change={f"self.dropout({READ})": READ},
        caught_by="block_drops_what_is_added",
        look=("attention",),
        says="dropout acts on what the feed-forward network adds, but not on what the attention adds. It acts on both.",
    ),
    mistake(
        name="dropout_after_the_norm",
        of=BLOCK,
        change={
            FIRST: f"self.dropout(self.norm1(x + {READ}))",
            SECOND: f"self.dropout(self.norm2(u + {DIGESTED}))",
        },
        caught_by="block_drops_what_is_added",
        look=("dropout",),
        says="dropout acts after the norm, on the whole state. It acts on what a part adds, before the sum; the old state "
        "always gets through.",
    ),
    mistake(
        name="dropout_of_the_sum",
        of=BLOCK,
        change={
            FIRST: f"self.norm1(self.dropout(x + {READ}))",
            SECOND: f"self.norm2(self.dropout(u + {DIGESTED}))",
        },
        caught_by="block_drops_what_is_added",
        look=("dropout",),
        says="dropout acts on the sum, so the old state is dropped as well. It acts on what a part adds, before the "
        "sum.",
    ),
    mistake(
        name="dropout_of_its_own",
        of=BLOCK,
        change={OWN_DROPOUT: "self.dropout = nn.Dropout()"},
        caught_by="block_drops_what_is_added",
        look=("Dropout",),
        says="the share that is dropped is always 0.5. Hand the argument `dropout` to `nn.Dropout`.",
    ),
    mistake(
        name="dropout_in_eval_mode",
        of=BLOCK,
        change={
            f"self.dropout({READ})": f"nn.functional.dropout({READ}, self.dropout.p)",
            f"self.dropout({DIGESTED})": f"nn.functional.dropout({DIGESTED}, self.dropout.p)",
        },
        caught_by="block_in_eval_mode",
        look=("dropout",),
        says="dropout stays on in eval mode: the function knows nothing of the module's mode. Use the module "
        "`self.dropout`.",
    ),
    mistake(
        name="attention_cut_off",
        of=BLOCK,
        change={READ: f"{READ}.detach()"},
        caught_by="block_gradients",
        look=("detach", "no_grad", "data", "numpy"),
        says="what was read is cut off from the graph, so no gradient reaches the attention.",
    ),
    mistake(
        name="block_float32_output",
        of=BLOCK,
        change={"return f  #": "return f.float()  #"},
        caught_by="block_in_float64",
        look=("float", "to", "float32", "type"),
        says="the output is turned into float32, whatever comes in. Keep the dtype of the input.",
    ),
]

BLOCK_UPON_BLOCK = [
    mistake(
        name="layers_not_chained",
        of=STACK,
        change={LAYER: "y = layer(x, mask)", "return x  #": "return y  #"},
        caught_by="stack_values",
        look=("layers",),
        says="every block gets the stack's input, so only the last one counts. The output of one block is the input "
        "of the next.",
    ),
    mistake(
        name="first_layer_missing",
        of=STACK,
        change={EACH_LAYER: "for layer in self.layers[1:]:"},
        caught_by="stack_values",
        look=("layers",),
        says="the first block is left out. All blocks take part, one after the other.",
    ),
    mistake(
        name="last_layer_missing",
        of=STACK,
        change={EACH_LAYER: "for layer in self.layers[:-1]:"},
        caught_by="stack_values",
        look=("layers",),
        says="the last block is left out. All blocks take part, one after the other.",
    ),
    mistake(
        name="first_layer_only",
        of=STACK,
        change={EACH_LAYER: "for layer in self.layers[:1]:"},
        caught_by="stack_values",
        look=("layers",),
        says="only the first block is used. All blocks take part, one after the other; return after the loop, not "
        "inside it.",
    ),
    mistake(
        name="first_layer_again_and_again",
        of=STACK,
        change={LAYER: "x = self.layers[0](x, mask)"},
        caught_by="stack_values",
        look=("layers",),
        says="the first block is used again and again. Each step uses the next block.",
    ),
    mistake(
        name="layers_backwards",
        of=STACK,
        change={EACH_LAYER: "for layer in reversed(self.layers):"},
        caught_by="stack_values",
        look=("reversed", "flip", "layers"),
        says="the blocks run from the last to the first. `layers[0]` comes first.",
    ),
    mistake(
        name="residual_around_the_blocks",
        of=STACK,
        change={LAYER: "x = x + layer(x, mask)"},
        caught_by="stack_values",
        look=("layers",),
        says="x is added to each block's output. The sums are inside the block already; here its output is simply the "
        "next input.",
    ),
    mistake(
        name="one_block_for_all_layers",
        of=STACK,
        change={ALL_LAYERS: "[EncoderBlock(num_heads, emb_dim, feedforward_dim, dropout)] * num_layers"},
        caught_by="stack_has_weights_of_its_own",
        look=("EncoderBlock",),
        says="one block stands in the list `num_layers` times. That is one set of weights: make a new block for each "
        "layer.",
    ),
    mistake(
        name="stack_drops_the_mask",
        of=STACK,
        change={LAYER: "x = layer(x)"},
        caught_by="stack_passes_the_mask",
        look=("layers",),
        says="the mask does not arrive: it is not handed to the blocks. Each block gets it.",
    ),
    mistake(
        name="mask_for_the_first_block_only",
        of=STACK,
        change={LAYER: f"{LAYER}\n            mask = None"},
        caught_by="stack_passes_the_mask",
        look=("layers",),
        says="only the first block gets the mask, so the others read what it hides. Each block gets the same mask.",
    ),
    mistake(
        name="stack_never_drops",
        of=STACK,
        change={ALL_LAYERS: ALL_LAYERS.replace("dropout)", "0.0)")},
        caught_by="stack_hands_dropout_on",
        look=("EncoderBlock",),
        says="the blocks are made with dropout 0. Hand the argument `dropout` to each of them.",
    ),
    mistake(
        name="layers_cut_off",
        of=STACK,
        change={LAYER: "x = layer(x.detach(), mask)"},
        caught_by="stack_gradients",
        look=("detach", "no_grad", "data"),
        says="each block's input is cut off from the graph, so no gradient reaches x and the blocks before the last.",
    ),
]

WITHOUT_CHANCE = [
    mistake(
        name="not_made_up_for",
        of=DROP,
        change={DROPPED: "x * keep"},
        caught_by="dropout_values",
        look=("keep",),
        says="what is kept is not scaled. Divide it by 1 − p, so that the expected value stays what it was.",
    ),
    mistake(
        name="multiplied_by_the_share_kept",
        of=DROP,
        change={DROPPED: "x * keep * (1 - p)"},
        caught_by="dropout_values",
        look=("p",),
        says="what is kept is multiplied by 1 − p. It is divided by it: it has to grow to make up for what is missing.",
    ),
    mistake(
        name="divided_by_p",
        of=DROP,
        change={DROPPED: "x * keep / p"},
        caught_by="dropout_values",
        look=("p",),
        says="what is kept is divided by p. Here p is the share that is dropped; divide by the share that is kept, 1 "
        "− p.",
    ),
    mistake(
        name="multiplied_by_p",
        of=DROP,
        change={DROPPED: "x * keep * p"},
        caught_by="dropout_values",
        look=("p",),
        says="what is kept is multiplied by p. Divide it by the share that is kept, 1 − p.",
    ),
    mistake(
        name="keep_inverted",
        of=DROP,
        change={DROPPED: "x * ~keep / (1 - p)"},
        caught_by="dropout_values",
        look=("keep",),
        says="`keep` is read the wrong way round. True means that the entry survives.",
    ),
    mistake(
        name="keep_ignored",
        of=DROP,
        change={DROPPED: "x / (1 - p)"},
        caught_by="dropout_values",
        says="nothing is dropped: `keep` is not used. Where it is false, the entry becomes 0.",
    ),
    mistake(
        name="drawn_again",
        of=DROP,
        change={DROPPED: "nn.functional.dropout(x, p)"},
        caught_by="dropout_values",
        look=("dropout", "Dropout"),
        says="dropout draws a mask of its own. The choice is made already: it is `keep`.",
    ),
    mistake(
        name="divided_by_what_was_kept",
        of=DROP,
        change={DROPPED: "x * keep / keep.float().mean()"},
        caught_by="dropout_values",
        look=("mean", "sum"),
        says="what is kept is divided by the share that happens to be kept in `keep`. Divide by 1 − p, whatever the "
        "mask.",
    ),
    mistake(
        name="dropout_float32_output",
        of=DROP,
        change={DROPPED: "(x * keep / (1 - p)).float()"},
        caught_by="dropout_in_float64",
        look=("float", "to", "float32", "type"),
        says="the output is turned into float32, whatever comes in. Keep the dtype of x.",
    ),
]

DOES_IT_COMMUTE = [
    mistake(
        name="mask_travels_unasked",
        of=GAP,
        change={MASK: "keep[:, permutation]"},
        caught_by="gap_where_the_mask_stays",
        look=("permute_mask", "keep"),
        says="the gap is 0 although `permute_mask` is false, as if the mask travelled along. There the reordered positions are "
        "dropped with `keep` as it stands.",
    ),
    mistake(
        name="mask_never_travels",
        of=GAP,
        change={MASK: "keep"},
        caught_by="gap_where_the_mask_travels",
        look=("permute_mask", "keep"),
        says="the mask stays where it is although `permute_mask` is true. There it is reordered along with the "
        "positions.",
    ),
    mistake(
        name="output_not_reordered",
        of=GAP,
        change={REORDERED_OUTPUT: "dropout_with_mask(x, keep, p)"},
        caught_by="gap_where_the_mask_stays",
        says="D(Px, k) is compared with D(x, keep), which is still in the old order. Reorder the output, P D(x, keep).",
    ),
    mistake(
        name="input_not_reordered",
        of=GAP,
        change={REORDERED_INPUT: "dropout_with_mask(x, mask, p)"},
        caught_by="gap_where_the_mask_stays",
        says="x is dropped in the old order on both sides. On one side it is reordered first: D(Px, k).",
    ),
    mistake(
        name="reordered_the_other_way_round",
        of=GAP,
        change={f"mask = {MASK}": f"permutation = permutation.argsort()\n    mask = {MASK}"},
        caught_by="gap_where_the_mask_stays",
        look=("argsort", "scatter", "index_copy"),
        says="everything is reordered the other way round. Place i gets position `permutation[i]`: `(Px)[:, i] = x[:, "
        "permutation[i]]`.",
    ),
    mistake(
        name="output_put_back",
        of=GAP,
        change={REORDERED_OUTPUT: "dropout_with_mask(x, keep, p)[:, permutation.argsort()]"},
        caught_by="gap_where_the_mask_stays",
        look=("argsort", "scatter", "index_copy"),
        says="the output is reordered with the inverse of the permutation. Input and output are reordered in the same "
        "way.",
    ),
    mistake(
        name="gap_averaged",
        of=GAP,
        change={LARGEST: "difference.abs().mean()"},
        caught_by="gap_where_the_mask_stays",
        look=("mean",),
        says="the differences are averaged. The gap is the largest of them.",
    ),
    mistake(
        name="gap_signed",
        of=GAP,
        change={LARGEST: "difference.max()"},
        caught_by="gap_where_the_mask_stays",
        look=AT_ABS,
        says="the largest difference is taken without its absolute value, so the negative ones are overlooked.",
    ),
    mistake(
        name="gap_relative",
        of=GAP,
        change={LARGEST: "difference.abs().max() / dropout_with_mask(x, keep, p).abs().max()"},
        caught_by="gap_where_the_mask_stays",
        look=AT_ABS,
        says="the gap is divided by the largest output, as in Lab 2. Here it is divided by nothing.",
    ),
    mistake(
        name="gap_as_a_norm",
        of=GAP,
        change={LARGEST: "difference.norm()"},
        caught_by="gap_where_the_mask_stays",
        look=("norm", "vector_norm"),
        says="the gap is the norm of the difference, in which all entries take part. It is the largest absolute "
        "difference.",
    ),
]

# What a rule or an exception already tells in its own words.
TOLD_BY_THE_CHECK = [
    mistake(
        name="ffn_without_bias",
        of=FFN,
        change={"nn.Linear(inp_dim, hidden_dim_feedforward)": "nn.Linear(inp_dim, hidden_dim_feedforward, bias=False)"},
        caught_by="ffn_layers",
        told="gap",
        says="`linear1` has no bias.",
    ),
    mistake(
        name="ffn_widths_swapped",
        of=FFN,
        change={
            "self.linear1 = nn.Linear(inp_dim": "self.linear2 = nn.Linear(inp_dim",
            "self.linear2 = nn.Linear(hidden_dim_feedforward": "self.linear1 = nn.Linear(hidden_dim_feedforward",
        },
        caught_by="ffn_layers",
        told="gap",
        says="`linear1` and `linear2` have each other's widths.",
    ),
    mistake(
        name="ffn_squeezed",
        of=FFN,
        change={"return y  #": "return y.squeeze()  #"},
        caught_by="ffn_small",
        told="gap",
        says="squeeze takes away the batch axis where there is one sequence.",
    ),
    mistake(
        name="norm_without_keepdim",
        of=NORM,
        change={CENTRED: "x - x.mean(dim=-1)"},
        caught_by="norm_over_features",
        told="gap",
        says="the mean has lost its last axis, so it does not fit to x.",
    ),
    mistake(
        name="gamma_not_a_parameter",
        of=NORM,
        change={"nn.Parameter(torch.ones(emb_dim))": "torch.ones(emb_dim)"},
        caught_by="norm_gamma_beta",
        told="gap",
        says="`gamma` is a tensor, not an `nn.Parameter`.",
    ),
    mistake(
        name="one_gamma_for_all_features",
        of=NORM,
        change={"torch.ones(emb_dim)": "torch.ones(1)"},
        caught_by="norm_gamma_beta",
        told="gap",
        says="`gamma` is one number, not one for each feature.",
    ),
    mistake(
        name="norm_squeezed",
        of=NORM,
        change={"centred = x -": "x = x.squeeze(0)\n        centred = x -"},
        caught_by="norm_small",
        told="gap",
        says="squeeze takes away the batch axis where there is one sequence.",
    ),
    mistake(
        name="centred_in_place",
        of=NORM,
        change={"centred = x - x": "x -= x", VARIANCE: "x.square().mean(dim=-1, keepdim=True)", PLAIN: f"x / {ROOT}"},
        caught_by="norm_leaves_x_alone",
        told="gap",
        says="the mean is subtracted in place, so the caller's tensor changes.",
    ),
    mistake(
        name="ready_made_deviation",
        of=NORM,
        change={VARIANCE: "x.std(dim=-1, correction=0, keepdim=True).square()"},
        caught_by="norm_is_written_out",
        told="gap",
        says="torch's own standard deviation is used.",
    ),
    mistake(
        name="ready_made_norm",
        of=NORM,
        change={SCALED: "nn.functional.layer_norm(x, x.shape[-1:], self.gamma, self.beta, self.epsilon)"},
        caught_by="norm_is_written_out",
        told="gap",
        says="torch's own layer norm is used.",
    ),
    mistake(
        name="uneven_shares_accepted",
        of=BLOCK,
        change={"if emb_dim % num_heads:": "if False:"},
        caught_by="block_needs_equal_shares",
        told="gap",
        says="heads that cannot share the features out evenly are accepted.",
    ),
    mistake(
        name="added_in_place",
        of=BLOCK,
        change={FIRST: f"self.norm1(x.add_(self.dropout({READ})))"},
        caught_by="block_leaves_inputs_alone",
        told="gap",
        says="what was read is added to x in place, so the caller's tensor changes.",
    ),
    mistake(
        name="block_with_a_ready_made_norm",
        of=BLOCK,
        change={OWN_NORM2: "self.norm2 = nn.LayerNorm(emb_dim)"},
        caught_by="block_is_not_ready_made",
        told="gap",
        says="torch's own layer norm is used.",
    ),
    mistake(
        name="block_squeezed",
        of=BLOCK,
        change={"return f  #": "return f.squeeze()  #"},
        caught_by="block_small",
        told="gap",
        says="squeeze takes away the batch axis where there is one sequence.",
    ),
    mistake(
        name="layers_in_a_plain_list",
        of=STACK,
        change={"nn.ModuleList(": "list("},
        caught_by="stack_values",
        told="gap",
        says="the blocks are in a plain list, where torch does not see their weights.",
    ),
    mistake(
        name="stack_squeezed",
        of=STACK,
        change={"return x  #": "return x.squeeze()  #"},
        caught_by="stack_small",
        told="gap",
        says="squeeze takes away the batch axis where there is one sequence.",
    ),
    mistake(
        name="dropout_cut_off",
        of=DROP,
        change={DROPPED: "x.detach() * keep / (1 - p)"},
        caught_by="dropout_gradients",
        told="gap",
        says="x is cut off from the graph, so no gradient reaches it.",
    ),
    mistake(
        name="dropped_in_place",
        of=DROP,
        change={DROPPED: "x.mul_(keep) / (1 - p)"},
        caught_by="dropout_leaves_inputs_alone",
        told="gap",
        says="x is changed in place.",
    ),
]
