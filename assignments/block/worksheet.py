# %% [markdown]
# # Lab 3 · Worksheet
#
# Pictures of the block, part by part, and at the end a small training run that shows what attention is for.
#
# - Write in `block.py` and save: the cells use the new version at once. Or define the parts in cells of this notebook,
#   after the next one, and hand in the notebook with your `attention.py` and `multihead.py`.
# - `check("LayerNormalization")` runs the visible checks of a part.
# - A part that is not written yet leaves a note (☐), and the rest goes on.

# %%
# %load_ext autoreload
# %autoreload 2
import torch
from torch import Tensor, nn

from attention import SelfAttention
from block import (
    EQUIVARIANT,
    OPERATIONS,
    Encoder,
    EncoderBlock,
    FeedForwardBlock,
    LayerNormalization,
    Operation,
    dropout_permutation_gap,
    dropout_with_mask,
)
from check import check
from multihead import permutation_gap
from plots import heat_map, heat_maps, lines, to_do

FRIENDS = ["Ada", "Ben", "Cleo", "Dan"]
SIX = [f"f{feature}" for feature in range(6)]
x = torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(3))

# %% [markdown]
# ## 3.1 Digest what was read
#
# Ada's features change by 1, everybody else's stay. Who notices? The picture shows by how much the output of each friend
# changes. A network that works on each position alone changes one row.

# %%
changed = x.clone()
changed[:, 0] += 1
PERSON = ("friend ↓", "feature →")
with to_do():
    torch.manual_seed(0)
    digest = FeedForwardBlock(6, 16)
    heat_map((digest(changed) - digest(x))[0], FRIENDS, SIX, "change of the output", PERSON)

# %%
check("FeedForwardBlock")

# %% [markdown]
# ## 3.2 One mean for each position
#
# Four friends with very different numbers: small ones, large ones, shifted ones, and all the same. Afterwards each row
# should look like any other, and the row of equal numbers should be calm, not `nan`.

# %%
uneven = x * torch.tensor([0.1, 3.0, 1.0, 0.0])[:, None] + torch.tensor([0.0, 0.0, 4.0, 2.0])[:, None]
with to_do():
    normed = LayerNormalization(6)(uneven)
    heat_map(uneven[0], FRIENDS, SIX, "before", PERSON)
    heat_map(normed[0], FRIENDS, SIX, "after", PERSON)

# %%
check("LayerNormalization")

# %% [markdown]
# ## 3.3, 3.4 Read, then digest
#
# The experiment of 3.1 once more, with a whole block and a stack of three. Compare the rows of Ben, Cleo and Dan with the
# first picture: now something of Ada arrives at each of them.

# %%
with to_do():
    torch.manual_seed(0)
    block = EncoderBlock(3, 6, 16, 0.1).eval()
    heat_map((block(changed) - block(x))[0], FRIENDS, SIX, "one block", PERSON)
with to_do():
    torch.manual_seed(0)
    stack = Encoder(3, 3, 6, 16, 0.1).eval()
    heat_map((stack(changed) - stack(x))[0], FRIENDS, SIX, "three blocks", PERSON)

# %%
check("EncoderBlock")

# %%
check("Encoder")

# %% [markdown]
# ## 3.5, 3.6 Dropout without chance
#
# Half of the entries are dropped, and what survives is twice as large. Then the friends change places. If the mask
# moves with them, does the result move, too? And if every friend gets the mask of the one who sat there before?

# %%
keep = torch.rand(1, 4, 6, generator=torch.Generator().manual_seed(4)) < 0.5
order = torch.tensor([2, 3, 1, 0])  # [2, 0, 3, 1] would not do: it commutes with reading backwards
with to_do():
    heat_maps({"x": x[0], "what dropout leaves": dropout_with_mask(x, keep, 0.5)[0]}, FRIENDS, SIX, PERSON)
with to_do():
    for moves in (True, False):
        gap = dropout_permutation_gap(x, keep, 0.5, order, moves)
        print(f"the mask {'moves with them' if moves else 'stays where it is'}: gap {gap:.3g}")

# %%
check("dropout_with_mask")

# %%
check("dropout_permutation_gap")

# %% [markdown]
# ## 3.7 Predict, then measure
#
# Equivariance as a picture: on the left the friends are reordered and then the function is applied, in the middle the
# other way round. Where the function follows the reordering, the two agree and the right side is empty. Put in another name
# of `OPERATIONS`.

# %%
NAME = "sequence reversed"  # try "feed-forward", "encoder block", ...


def follow(name: str) -> None:
    """Draw F(Px), P F(x) and their difference."""
    function = Operation(name)
    first, last = function(x[:, order])[0], function(x)[0, order]
    seated = [FRIENDS[i] for i in order]
    features = [f"f{feature}" for feature in range(first.shape[-1])]
    heat_maps({"F(Px)": first, "P F(x)": last, "difference": first - last}, seated, features, PERSON)


with to_do():
    follow(NAME)

# %% [markdown]
# And now your predictions. Only what you have predicted is measured: fill in `EQUIVARIANT` first.

# %%
predicted = [name for name in OPERATIONS if EQUIVARIANT[name] is not None]
print(f"{len(predicted)} of {len(OPERATIONS)} predicted")
for name in predicted:
    with to_do():
        gap = permutation_gap(Operation(name), x, order)
        agrees = (gap < 1e-5) == EQUIVARIANT[name]
        print(f"{'  ' if agrees else '≠ '}{name}: predicted {EQUIVARIANT[name]}, gap {gap:.2g}")

# %%
check("EQUIVARIANT")

# %% [markdown]
# ## A fact from another position
#
# Four friends say how they travel. A fifth position asks about one of them: *how does Cleo travel?* The friends stand in
# another order each time, so the place tells nothing. At the asking position stands the question only. Each row below is
# a position: which friend, what fact, and whether it asks.

# %%
FACTS = ["train", "bus", "bike", "foot"]


def questions(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """`count` sequences `(count, 5, 9)`: friends, facts, asks; and the facts asked for, `(count,)`."""
    draw = torch.Generator().manual_seed(seed)
    friends = torch.rand(count, 4, generator=draw).argsort(dim=1)
    facts = torch.randint(4, (count, 4), generator=draw)
    place = torch.randint(4, (count, 1), generator=draw)
    said = torch.zeros(count, 5, 9)
    said[:, :4, :4] = nn.functional.one_hot(friends, 4).float()
    said[:, :4, 4:8] = nn.functional.one_hot(facts, 4).float()
    said[:, 4, :4] = nn.functional.one_hot(friends.gather(1, place)[:, 0], 4).float()
    said[:, 4, 8] = 1
    return said, facts.gather(1, place)[:, 0]


said, wanted = questions(1, seed=34)
who = [FRIENDS[i] for i in said[0, :, :4].argmax(dim=1)]
POSITIONS = [*who[:4], f"{who[4]}?"]
heat_map(said[0], POSITIONS, [*FRIENDS, *FACTS, "asks"], f"the answer is {FACTS[int(wanted[0])]}", ("position ↓", ""))

# %% [markdown]
# Three networks learn to answer, each with a linear layer on top:
#
# - your `FeedForwardBlock`, which works on each position alone,
# - your `SelfAttention` of Lab 1, one layer of it,
# - the same layer with a mask that leaves each position nothing but itself to read.
#
# Guessing gives one in four. Before you run it: which of them can do better, however long it trains?


# %%
class Answers(nn.Module):
    """What stands at the last position after `mix`, as scores of the four facts."""

    def __init__(self, mix: nn.Module, width: int, alone: bool = False) -> None:
        super().__init__()
        self.mix, self.top, self.alone = mix, nn.Linear(width, 4), alone

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.mix, FeedForwardBlock):
            return self.top(self.mix(x)[:, -1])
        others = ~torch.eye(x.shape[1], dtype=torch.bool)[None] if self.alone else None
        return self.top(self.mix(x, x, x, others)[:, -1])


def train(network: nn.Module, steps: int = 300) -> list[float]:
    """The share of right answers to new questions, at every tenth step."""
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    asked, right = questions(1000, seed=12345)
    shares = []
    for step in range(steps + 1):
        if step % 10 == 0:
            with torch.no_grad():
                shares.append(float((network(asked).argmax(dim=1) == right).float().mean()))
        batch, answers = questions(128, seed=step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(batch), answers).backward()
        optimizer.step()
    return shares


with to_do():
    torch.manual_seed(0)
    networks = {
        "position-wise": Answers(FeedForwardBlock(9, 64), 9),
        "attention": Answers(SelfAttention(9, 8, 8), 8),
        "attention, all others hidden": Answers(SelfAttention(9, 8, 8), 8, alone=True),
    }
    learned = {name: train(network) for name, network in networks.items()}
    lines(range(0, 301, 10), learned, "training step", "share of right answers", {"guessing": 0.25})
    for name, shares in learned.items():
        print(f"{name}: {shares[-1]:.0%} right")
    reader = networks["attention"].mix
    reader(said, said, said)
    heat_map(reader.weights_softmax[0, -1:], POSITIONS[-1:], POSITIONS, "after training")

# %% [markdown]
# The last picture shows whom the asking position reads, now that the layer has learned. Nobody has told it to look for the
# same name.

# %% [markdown]
# ### Everything that can be checked here
#
# The questions (3.8) stand in the handout; your letters go into `ANSWERS`.

# %%
check()
