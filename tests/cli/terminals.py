"""terminals.py: a terminal of a test's own, for what the program says only there."""
import pty


def terminal(test):
    """Both ends of one. A system without any, such as a minimal chroot, skips the test."""
    try:
        return pty.openpty()
    except OSError as e:
        return test.skipTest("no terminals here (%s); mount -t devpts devpts /dev/pts" % e)
