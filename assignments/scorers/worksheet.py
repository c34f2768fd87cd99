# %% [markdown]
# # Lab 4 · Worksheet
#
# Four ways to score, one way to read, and instruments that tell which scorer listens.
#
# - Write in `scorers.py` and save: the cells use the new version at once. Or define the parts in cells of this notebook,
#   after the next one, and hand in the notebook.
# - `check("AdditiveScorer")` runs the visible checks of a part.
# - A part that is not written yet leaves a note (☐), and the rest goes on.

# %%
# %load_ext autoreload
# %autoreload 2
import torch
from torch import nn

from check import check
from plots import heat_map, heat_maps, lines, to_do
from scorers import (
    TOKENS,
    AdditiveScorer,
    LinearConcatScorer,
    compare,
    dot_product_scores,
    query_effect,
    read,
    scaled_dot_product_scores,
    sentence,
    shift_gap,
)

x = sentence()
heat_map(x[0], list(TOKENS), ["person", "place", "finance"], "made up by hand, not learned", ("token ↓", ""))

# %% [markdown]
# ## 4.1, 4.2 What *bank* has in common with *money*
#
# Two scorers without weights of their own. Look along the row of *bank*: which sources score highest? Dividing by √3
# changes no order, it brings the scores closer together.

# %%
with to_do():
    heat_map(dot_product_scores(x, x)[0], TOKENS, title="scores by dot product")
with to_do():
    heat_map(scaled_dot_product_scores(x, x)[0], TOKENS, title="scores, scaled")

# %%
check("dot_product_scores")

# %% [markdown]
# ## 4.3, 4.4 Two scorers with weights
#
# The weights are chosen by hand, so that all of us see the same. The additive scorer has three hidden units, one for
# each feature. The linear one is the handout's. Compare rows within each picture, not numbers between them.


# %%
def by_hand(scorer: nn.Module, **weights: list[float] | list[list[float]]) -> nn.Module:
    """The scorer with these weights in it, by name."""
    scorer.load_state_dict({name.replace("__", "."): torch.tensor(values) for name, values in weights.items()})
    return scorer


def additive() -> nn.Module:
    """It adds what a reader and a source have of each feature: only where both have much, tanh lets it through."""
    unit = torch.eye(3).tolist()
    return by_hand(
        AdditiveScorer(3, 3, 3), W_q__weight=unit, W_k__weight=unit, b=[-3.0, -3.0, -3.0], v_a=[1.0, 1.0, 2.0]
    )


def linear() -> nn.Module:
    """The counter-example of the handout."""
    return by_hand(LinearConcatScorer(3, 3), a=[1.0, 2.0, 3.0], b=[1.0, 0.0, 1.0])


with to_do():
    heat_map(additive()(x, x)[0], TOKENS, title="scores by a small network")
with to_do():
    heat_map(linear()(x, x)[0], TOKENS, title="scores by one linear layer")

# %%
check("AdditiveScorer")

# %%
check("LinearConcatScorer")

# %% [markdown]
# ## 4.5 One read for all of them
#
# Scores of any origin become weights in the same way. *bank* has two best sources by the dot product, *money* and itself.
# On the right *bank* may not read itself, and the others may read everything.

# %%
with to_do():
    scores = scaled_dot_product_scores(x, x)
    itself = torch.zeros(1, 7, 7, dtype=torch.bool)
    itself[0, 5, 5] = True
    heat_maps({"everything": read(scores, x)[1][0], "bank not itself": read(scores, x, itself)[1][0]}, TOKENS)

# %%
check("read")

# %% [markdown]
# ### The scorers side by side
#
# The same sentence, the same read, another scorer each time. A row is a reader. In one of the pictures all rows are
# alike: whoever asks gets the same answer.

# %%
with to_do():
    heat_maps(
        {
            "scaled dot product": read(scaled_dot_product_scores(x, x), x)[1][0],
            "small network": read(additive()(x, x), x)[1][0],
            "one linear layer": read(linear()(x, x), x)[1][0],
        },
        TOKENS,
    )

# %% [markdown]
# ## 4.6, 4.7 Does the query matter?
#
# Let *bank* ask more and more about finance (its third feature from 0 to 2) and follow its weight on *money*. A flat
# line is a scorer that does not listen.

# %%
asking = [step / 8 for step in range(17)]
with to_do():
    scorers = {
        "scaled dot product": scaled_dot_product_scores,
        "small network": additive(),
        "one linear layer": linear(),
    }
    on_money: dict[str, list[float]] = {name: [] for name in scorers}
    for finance in asking:
        bank = torch.tensor([[[0.0, 1.0, finance]]])
        for label, score in scorers.items():
            on_money[label].append(read(score(bank, x), x)[1][0, 0, 2].item())
    lines(asking, on_money, "how much bank asks about finance", "its weight on money")
    for label, score in scorers.items():
        print(f"{label}: query_effect {query_effect(score, x, x.flip(1), x):.4f}")

# %%
check("query_effect")

# %% [markdown]
# And why is the line flat? Add a constant to all scores of a reader, add another number to each source, stretch the
# scores: which of the three changes the weights?

# %%
with to_do():
    scores = torch.tensor([[[1.0, 2.0, 3.0]]])
    changes = {"+ 100 for all": 100.0, "+ [1, 0, 0]": torch.tensor([1.0, 0.0, 0.0]), "× 2": scores}
    for name, change in changes.items():
        print(f"{name:14} gap {shift_gap(scores, change):.4f}")

# %%
check("shift_gap")

# %% [markdown]
# ## 4.8 Measured

# %%
with to_do():
    everyone = {
        "dot product": dot_product_scores,
        "scaled dot product": scaled_dot_product_scores,
        "small network": additive(),
        "one linear layer": linear(),
    }
    rows = compare(everyone, x, x.flip(1), x, x)
    measured = [[float(row[key]) for key in ("row_sum_error", "query_effect", "entropy")] for row in rows]
    heat_map(measured, list(everyone), ["row sum error", "query effect", "entropy"], axes=("", ""))

# %% [markdown]
# ### Everything that can be checked here
#
# The questions (4.9) stand in the handout; your letters go into `ANSWERS`.

# %%
check()
