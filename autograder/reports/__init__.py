"""Views of a record for one reader each: console, Gradescope."""
