"""What runs inside Gradescope's image: setup.sh once, run_autograder for each hand-in."""
