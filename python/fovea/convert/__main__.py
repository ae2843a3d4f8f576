"""python -m fovea.convert, and the file that the command `fovea convert` runs.

As a file it is its own package: `fovea` around it, which loads the library, is not needed.
"""
import importlib.util
import os
import sys

if __package__:
    from .command import main
else:
    home = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != home]  # files there are not modules
    spec = importlib.util.spec_from_file_location("fovea_convert", os.path.join(home, "__init__.py"),
                                                  submodule_search_locations=[home])
    sys.modules["fovea_convert"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["fovea_convert"])
    from fovea_convert.command import main

if __name__ == "__main__":
    main(sys.argv[1:])
