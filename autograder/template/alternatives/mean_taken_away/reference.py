"""The mean by a sum, and the positions as rows of one matrix."""


def centre(x):
    rows = x.reshape(-1, x.shape[-1])
    mean = rows.sum(1) / x.shape[-1]
    return (rows.T - mean).T.reshape(x.shape)


ANSWERS = {"mean-of-the-output": "b"}
