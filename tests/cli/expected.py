"""expected.py: runs tests that are plain functions, which check their conditions by expect()."""


class Failed(Exception):
    pass


def expect(what, condition):
    if not condition:
        raise Failed(what)


def run(tests, call):
    """Passes each of the tests to `call`. Prints the number that passed in the last line; returns the exit status."""
    failed = 0
    for test in tests:
        try:
            call(test)
        except Failed as e:
            print("FAIL %s: %s" % (test.__name__, e))
            failed += 1
    print("%d passed, %d failed, 0 skipped" % (len(tests) - failed, failed))
    return 1 if failed else 0
