"""What runs in a student's own folder: `python check.py`."""
