# %% [markdown]
# # Lab 1 · Worksheet
#
# Pictures of what you write, as you write it. The handout (`README.md`) says why, the docstrings in `attention.py` say
# exactly what; here you look at it.
#
# - Write in `attention.py` and save: the cells use the new version at once. Nothing has to be restarted.
# - Or define the functions in cells of this notebook, after the next one, and hand in the notebook.
# - `check("no_loop")` runs the visible checks of a part and shows what was expected beside what came.
# - A part that is not written yet leaves a note (☐), and the rest goes on.

# %%
# %load_ext autoreload
# %autoreload 2
import torch

from attention import (
    ReadsItself,
    SelfAttention,
    back_to_front,
    reads,
    running_mean,
    scaled_dot_product_no_loop_batch,
    scaled_dot_product_two_loop_batch,
    scaled_dot_product_two_loop_single,
    tanh_mlp,
    weighted_read,
)
from check import check
from plots import grids, heat_map, heat_maps, lines, to_do

WORDS = ["The", "animal", "slept"]

# %% [markdown]
# ## Who slept?
#
# *slept* stands at position 2, and what it needs stands at position 1. Suppose somebody has told us how much each
# position takes from each other one. Every row is a reader, and sums to 1:

# %%
A = torch.tensor([[0.70, 0.20, 0.10], [0.10, 0.80, 0.10], [0.05, 0.80, 0.15]])
heat_map(A, WORDS, title="rows read, columns are read")

# %% [markdown]
# Take the last row. *slept* takes .80 from *animal*: that is `A[2, 1]`, not `A[1, 2]`.
#
# ### 1.1 A weighted read
#
# Each source offers two features. If only one source had something to offer, what would arrive? Done for one source
# after the other, this splits the result by where it comes from. Of the 1.75, how much is *animal*'s?

# %%
offered = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
with to_do():
    alone = torch.diag_embed(torch.ones(3)).unbind()  # 1 for one source, 0 for the others
    shares = [weighted_read(A[2], only[:, None] * offered) for only in alone]
    everything = weighted_read(A[2], offered)
    heat_map(
        torch.stack([*shares, everything]),
        [*(f"from {word}" for word in WORDS), "all: new slept"],
        ["feature 0", "feature 1"],
        axes=("", ""),
    )

# %%
check("weighted_read")

# %% [markdown]
# ### 1.2 Where the weights come from
#
# The example of the handout. Each reader asks with its query, each source answers with its key, and their dot product is
# the score of the pair. The outputs should be the ones in the handout's table.

# %%
query = torch.tensor([[2.0, 0, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1]])
key = torch.tensor([[1.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 2]])
value = torch.tensor([[1.0, 0], [0, 2], [1, 1]])
POSITIONS = ["0", "1", "2"]
with to_do():
    heat_map(
        scaled_dot_product_two_loop_single(query, key, value),
        POSITIONS,
        ["feature 0", "feature 1"],
        "what each reader gets",
        axes=("reader ↓", ""),
    )

# %%
check("two_loop_single")

# %% [markdown]
# ### 1.3, 1.4 With loops and without
#
# Loops do one dot product after the other, a matrix product does all of them at once and adds in another order. So the two
# need not agree in the last digit, and should agree in all others. How far are they apart, compared with the size of the
# numbers, and what does float64 change? The dashed line says how fine float32 is.


# %%
def apart(positions: int, dtype: torch.dtype) -> float:
    """The largest relative difference of the loop and the no-loop version, on random inputs."""
    draw = torch.Generator().manual_seed(positions)
    q, k, v = torch.randn(3, 2, positions, 16, generator=draw).to(dtype)
    looped = scaled_dot_product_two_loop_batch(q, k, v)
    at_once = scaled_dot_product_no_loop_batch(q, k, v)[0]
    return float((looped - at_once).abs().max() / at_once.abs().max())


with to_do():
    sizes = [2, 4, 8, 16, 32]
    lines(
        sizes,
        {
            "float32": [max(apart(size, torch.float32), 1e-17) for size in sizes],
            "float64": [max(apart(size, torch.float64), 1e-17) for size in sizes],
        },
        "positions",
        "relative difference",
        levels={"float32: from 1 to the next number": torch.finfo(torch.float32).eps},
        logarithmic=True,
    )

# %%
check("two_loop_batch")

# %% [markdown]
# Now the weights themselves, the second thing that 1.4 returns; on the right with source 2 hidden from every reader. Look
# for the two things that a mask must do: the hidden column is 0, and each row still sums to 1.

# %%
with to_do():
    hidden = torch.tensor([[[False, False, True]]])
    batch = query[None], key[None], value[None]
    heat_maps(
        {
            "nothing hidden": scaled_dot_product_no_loop_batch(*batch)[1][0],
            "source 2 hidden": scaled_dot_product_no_loop_batch(*batch, hidden)[1][0],
        },
        POSITIONS,
    )

# %% [markdown]
# #### What the scale is for
#
# Random queries and keys with 1 to 1024 features. If a reader spread its weight evenly over 8 sources, its largest
# weight would be 1/8. A query that is √D times as long undoes the scale: then the wider the vectors, the closer to all or
# nothing, where softmax hardly learns.

# %%
with to_do():
    widths = [1, 4, 16, 64, 256, 1024]
    largest: dict[str, list[float]] = {"scaled": [], "scale undone": []}
    for width in widths:
        q, k = torch.randn(2, 64, 8, width, generator=torch.Generator().manual_seed(width))
        for name, times in (("scaled", 1.0), ("scale undone", width**0.5)):
            weights = scaled_dot_product_no_loop_batch(q * times, k, k)[1]
            largest[name].append(float(weights.max(dim=-1).values.mean()))
    lines([0, 2, 4, 6, 8, 10], largest, "log₂ of the width D", "mean largest weight", levels={"even: 1/8": 1 / 8})

# %% [markdown]
# #### Order
#
# The same three positions in another order. Is the second picture the first one with rows and columns reordered?

# %%
with to_do():
    order = [2, 0, 1]
    heat_maps({"as it was": scaled_dot_product_no_loop_batch(*batch)[1][0]}, WORDS)
    turned = [part[:, order] for part in batch]
    heat_map(scaled_dot_product_no_loop_batch(*turned)[1][0], [WORDS[i] for i in order], title="reordered")

# %%
check("no_loop")

# %% [markdown]
# ### 1.5 A layer
#
# A layer makes queries, keys and values itself. Nobody has trained this one, so who reads whom is chance: another seed,
# another picture. What stays is that rows sum to 1.

# %%
with to_do():
    x = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0))
    pictures = {}
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        layer = SelfAttention(4, 3, 6)
        layer(x, x, x)
        pictures[f"seed {seed}"] = layer.weights_softmax[0]
    heat_maps(pictures, WORDS)

# %%
check("SelfAttention")

# %% [markdown]
# ### 1.6 Who reads whom
#
# Your instrument on four functions. Which one of them could never tell *slept* who it was that slept?

# %%
with to_do():
    torch.manual_seed(1)
    functions = {"tanh_mlp": tanh_mlp, "running_mean": running_mean, "back_to_front": back_to_front}
    edges = {name: reads(function, x) for name, function in functions.items()}
    grids(edges, WORDS)
    grids({"your SelfAttention": reads(ReadsItself(SelfAttention(4, 3, 6)), x)}, WORDS)

# %%
check("reads")

# %% [markdown]
# ### Everything that can be checked here
#
# The questions (1.7) stand in the handout; your letters go into `ANSWERS`.

# %%
check()
