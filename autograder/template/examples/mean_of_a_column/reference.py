"""One fault: the mean of the positions."""


def centre(x):
    return x - x.mean(1, keepdim=True)


ANSWERS = {"mean-of-the-output": "B"}
