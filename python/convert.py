"""convert.py: `fovea convert` of the repository, by the name under which it was a file of its own."""
import os
import runpy

runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fovea", "convert"), run_name="__main__")
