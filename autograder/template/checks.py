"""The checks of this lab. Order, names and numbers are what students see; points per section stand in lab.toml."""

from gradescope_utils.autograder_utils.decorators import number, tags, visibility, weight

from autograder import laws
from autograder import questions as concept
from autograder.check import check, expect


@number("@N@.1.1")
@weight(60)
@check(target="centre", read="#centre")
def centre_values(student, reference, probes):
    """every position has its own mean taken away"""
    x = probes.normal(2, 5, 4)
    expect(student.centre(x), axes="sequence position feature").equals(reference.centre(x))


@number("@N@.1.2")
@weight(20)
@visibility("hidden")
@check(target="centre", after="centre_values", read="#centre")
def centre_small(student, reference, probes):
    """one sequence, one position"""
    for n, k in ((1, 5), (2, 1)):
        x = probes.normal(n, k, 4)
        expect(student.centre(x), axes="sequence position feature").equals(reference.centre(x))


@number("@N@.1.3")
@weight(10)
@check(target="centre", after="centre_values", read="#centre")
def centre_follows_the_order(student, probes):
    """reordering the positions reorders the output in the same way"""
    laws.permutation_equivariant(student.centre, probes.normal(2, 6, 4), probes.permutation(6))


@number("@N@.2.1")
@weight(10)
@tags("question")
@check(target="ANSWERS", local=False, read="#questions")
def answer_mean_of_the_output(student, reference, questions):
    """the mean of the output"""
    concept.judge(questions, "mean-of-the-output", student, reference)
