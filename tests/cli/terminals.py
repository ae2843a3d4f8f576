"""terminals.py: opens a pseudo-terminal for tests of output that the program writes only to a terminal."""
import pty


def terminal(test):
    """Both ends of a pseudo-terminal. Skips the test on a system without them, such as a minimal chroot."""
    try:
        return pty.openpty()
    except OSError as e:
        return test.skipTest("no terminals here (%s); mount -t devpts devpts /dev/pts" % e)
