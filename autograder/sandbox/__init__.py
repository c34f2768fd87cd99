"""Where code that is not ours runs: guests forked from a zygote, spoken to in frames, never trusted."""
