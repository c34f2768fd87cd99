"""Takes the part from a file beside it, in which it is a loop of numpy's."""

from mixing import mix as scaled_dot_product_no_loop_batch

__all__ = ["scaled_dot_product_no_loop_batch"]
