"""expected.py: tests that are plain functions, each of which says by expect() what must hold."""


class Failed(Exception):
    pass


def expect(what, condition):
    if not condition:
        raise Failed(what)


def run(tests, call):
    """Has `call` call each of the tests. The last line says how many passed; returns the exit status."""
    failed = 0
    for test in tests:
        try:
            call(test)
        except Failed as e:
            print("FAIL %s: %s" % (test.__name__, e))
            failed += 1
    print("%d passed, %d failed, 0 skipped" % (len(tests) - failed, failed))
    return 1 if failed else 0
