"""@TITLE@."""

from torch import Tensor


def centre(x: Tensor) -> Tensor:
    """Take from the features of each position their mean.

    Args:
        x: `(N, K, M)`.

    Returns:
        `(N, K, M)`.
    """
    # BEGIN SOLUTION @N@.1 subtract the mean of each position
    return x - x.mean(dim=-1, keepdim=True)  # (N, K, M)
    # END SOLUTION


# BEGIN SOLUTION @N@.2 answer the questions
ANSWERS: dict[str, str | None] = {"mean-of-the-output": "B"}
# END SOLUTION
# BEGIN STARTER
# # TODO @N@.2: one letter for each question; None means "not answered"
# ANSWERS: dict[str, str | None] = {"mean-of-the-output": None}
# END STARTER
