"""A whole class: an export goes in; the grade book, a page for each student and the class report come out."""
