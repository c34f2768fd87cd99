"""What goes wrong in this lab, as small changes of the reference. `make audit` proves that each is caught and named."""

from autograder.diagnose import mistake

MISTAKES = [
    mistake(
        name="mean_over_positions",
        of="centre",
        change={"x.mean(dim=-1, keepdim=True)": "x.mean(dim=1, keepdim=True)"},
        caught_by="centre_values",
        look=("mean",),
        says="the mean is taken over the positions. Each position has a mean of its own, over its features: the last axis.",
    ),
    mistake(
        name="mean_of_the_first_position",
        of="centre",
        change={"x.mean(dim=-1, keepdim=True)": "x[:, :1].mean(dim=-1, keepdim=True)"},
        caught_by="centre_values",
        look=("mean",),
        says="the mean of the first position is taken from all of them. Each position has a mean of its own.",
    ),
]
