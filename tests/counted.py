"""counted.py: unittest programs that say `N passed, N failed, N skipped` in their last line."""
import importlib
import sys
import unittest


def need(module, remedy="sh platform/setup-debian.sh test installs it"):
    """Imports a module. If it is missing, ends the program with one test skipped."""
    try:
        return importlib.import_module(module)
    except ImportError:
        print("no %s for %s; %s" % (module, sys.executable, remedy))
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(77)


def main():
    """Runs the tests of the program."""
    result = unittest.TextTestRunner(stream=sys.stdout).run(
        unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print("%d passed, %d failed, %d skipped" % (result.testsRun - failed - skipped, failed, skipped))
    sys.exit(1 if failed else 0)
