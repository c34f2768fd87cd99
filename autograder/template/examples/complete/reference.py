"""A hand-in as a student may write it, with everything right."""


def centre(x):
    return x - x.mean(-1, keepdim=True)


ANSWERS = {"mean-of-the-output": "B"}
