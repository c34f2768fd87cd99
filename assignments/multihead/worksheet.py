# %% [markdown]
# # Lab 2 · Worksheet
#
# Several heads, looked at one by one and together.
#
# - Write in `multihead.py` and save: the cells use the new version at once. Or define the parts in cells of this notebook,
#   after the next one, and hand in the notebook with your `attention.py`.
# - `check("split_heads")` runs the visible checks of a part.
# - A part that is not written yet leaves a note (☐), and the rest goes on.

# %%
# %load_ext autoreload
# %autoreload 2
import torch

from check import check
from multihead import (
    AddsPlace,
    DroppingMLP,
    FusedMultiHeadAttention,
    MultiHeadAttention,
    ReadsItself,
    RunningMean,
    concat_heads,
    permutation_gap,
    split_heads,
)
from plots import heat_map, heat_maps, lines, to_do

WORDS = ["The", "animal", "didn't", "cross", "the", "street", "because", "it", "was", "tired", "."]
x = torch.randn(1, len(WORDS), 6, generator=torch.Generator().manual_seed(0))

# %% [markdown]
# ## 2.1, 2.2 Joining and taking apart
#
# Three heads found two features each at four positions. The tens say which head a number comes from, the ones which
# feature, and behind the point stands the position. After joining, the two features of a head stand side by side in
# every row.

# %%
PLACES = ["0", "1", "2", "3"]
TABLE = ("position ↓", "feature →")
found = [
    torch.tensor([[[10.0 * head + feature + place / 10 for feature in (0, 1)] for place in range(4)]])
    for head in (1, 2, 3)
]
with to_do():
    joined = concat_heads(found)
    heat_map(joined[0], PLACES, [str(feature) for feature in range(joined.shape[-1])], "joined", TABLE)

# %%
check("concat_heads")

# %% [markdown]
# And back: each picture should be what one head found, so one decade of numbers, and positions still go down.

# %%
with to_do():
    apart = split_heads(concat_heads(found), 3)[0]
    heat_maps({f"head {head}": table for head, table in enumerate(apart)}, PLACES, ["0", "1"], TABLE)

# %%
check("split_heads")

# %% [markdown]
# ## 2.3 Who reads whom, head by head
#
# Each head has queries and keys of its own, so each reads in its own way. *it* could refer to *animal* or to *street*; a
# trained head may care. These two are not trained: what you see is chance, and that they differ.

# %%
with to_do():
    torch.manual_seed(2)
    layer = MultiHeadAttention(2, 6, 3)
    layer(x, x, x)
    heat_maps({f"head {i}": head.weights_softmax[0] for i, head in enumerate(layer.heads)}, WORDS)

# %% [markdown]
# The same with a mask: no word may read a later one. It holds in every head.

# %%
with to_do():
    torch.manual_seed(2)
    layer = MultiHeadAttention(2, 6, 3)
    later = torch.ones(1, len(WORDS), len(WORDS), dtype=torch.bool).triu(1)
    layer(x, x, x, later)
    heat_maps({f"head {i}, masked": head.weights_softmax[0] for i, head in enumerate(layer.heads)}, WORDS)

# %%
check("MultiHeadAttention")

# %% [markdown]
# ## 2.4 Does it follow a reordering?
#
# Four words in another order. On the left they are reordered first and then go through the layer, in the middle the other
# way round. Where a layer follows the reordering, the right side is empty. Put in another layer.

# %%
few, order = x[:, :4], torch.tensor([2, 3, 1, 0])
with to_do():
    torch.manual_seed(2)
    function = ReadsItself(MultiHeadAttention(2, 6, 3))  # try RunningMean() or AddsPlace()
    first, last = function(few[:, order])[0], function(few)[0, order]
    heat_maps(
        {"F(Px)": first, "P F(x)": last, "difference": first - last},
        [WORDS[i] for i in order],
        [f"f{feature}" for feature in range(6)],
        ("word ↓", "feature →"),
    )

# %% [markdown]
# Your instrument makes one number of it. Two of these layers should show 0 up to rounding; dropout is off in eval mode.

# %%
with to_do():
    torch.manual_seed(0)
    for layer in (DroppingMLP(6), RunningMean(), AddsPlace()):
        print(f"{type(layer).__name__}: gap {permutation_gap(layer, few, order):.2g}")
    print(f"attention: gap {permutation_gap(ReadsItself(MultiHeadAttention(2, 6, 3)), few, order):.2g}")

# %%
check("permutation_gap")

# %% [markdown]
# ## 2.6 Extra credit: one head after the other, or all at once
#
# With the same weights both compute the same, up to rounding: in float32 about 10⁻⁷ of the largest number, in float64
# about 10⁻¹⁶.


# %%
def between(heads: int, dtype: torch.dtype) -> float:
    """The largest relative difference of the two versions, on random inputs."""
    torch.manual_seed(heads)
    looped, fused = MultiHeadAttention(heads, 16, 4).to(dtype), FusedMultiHeadAttention(heads, 16, 4).to(dtype)
    fused.load_heads(looped)
    words = torch.randn(2, 9, 16, dtype=dtype)
    one, other = looped(words, words, words), fused(words, words, words)
    return ((one - other).abs().max() / one.abs().max()).item()


with to_do():
    numbers = [1, 2, 4, 8, 16]
    kinds = {"float32": torch.float32, "float64": torch.float64}
    curves = {name: [max(between(heads, kind), 1e-17) for heads in numbers] for name, kind in kinds.items()}
    lines(numbers, curves, "heads", "relative difference", logarithmic=True)

# %%
check("FusedMultiHeadAttention")

# %% [markdown]
# ### Everything that can be checked here
#
# The questions (2.5) stand in the handout; your letters go into `ANSWERS`.

# %%
check()
