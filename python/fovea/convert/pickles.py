"""pickles.py: reads a pickle as data.

A pickle is a program for a small stack machine, and two of its instructions import and call functions that the
file names. This machine imports nothing: names are looked up in the caller's table, and a name that is not in
it is refused with a message. So a file can contain plain containers and the objects of the table, but no code
of its own. Nothing here recurses, and memory is proportional to the size of the pickle.
"""
import collections
import pickletools

from . import Refused

LITERALS = frozenset(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
                      "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
                      "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"))
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set, "EMPTY_TUPLE": tuple}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
SCALARS = (str, bytes, int, float, type(None))


class Known:
    """The value of a name in the table: our function that makes an object from the arguments."""

    def __init__(self, make):
        self.make = make


class Plain(dict):
    """An object of a known class: its items as a dictionary, and its attributes in `state`."""
    state = None


def key_of(x):
    """Returns x if it may be a dictionary key: only types whose hash takes time proportional to their size."""
    if isinstance(x, SCALARS) or (isinstance(x, tuple) and all(isinstance(i, SCALARS) for i in x)):
        return x
    raise ValueError("a key that is a %s" % type(x).__name__)


def ordered_dict(pairs=()):
    return collections.OrderedDict((key_of(k), v) for k, v in pairs)


def set_of(items=()):
    return {key_of(x) for x in items}


# Containers of the standard library, and classes that training programs store with the weights: by
# module, as Python 2 and 3 name it, and by name.
CONTAINERS = {
    ("collections", "OrderedDict"): Known(ordered_dict),
    ("collections", "defaultdict"): Known(lambda kind=None: {}),
    ("argparse", "Namespace"): Known(lambda *a: Plain()),
    ("types", "SimpleNamespace"): Known(lambda *a: Plain()),
    ("yacs.config", "CfgNode"): Known(lambda *a: Plain()),
}
for builtins in ("builtins", "__builtin__"):
    CONTAINERS.update({(builtins, "set"): Known(set_of), (builtins, "frozenset"): Known(set_of),
                       (builtins, "dict"): Known(ordered_dict), (builtins, "list"): Known(list)})


class Machine:
    """The stack machine. `find(module, name)` returns the value of a name, or None; `persistent(id)` the object
    with an id."""

    def __init__(self, find, persistent):
        self.find, self.persistent = find, persistent
        self.stack, self.below, self.memo = [], [], {}

    def since_mark(self):
        items, self.stack = self.stack, self.below.pop()
        return items

    def named(self, module, name):
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("a name that is not a string")
        known = CONTAINERS.get((module, name)) or self.find(module, name)
        if known is None:
            raise Refused("it refers to %.80s.%.80s, but only tensors and plain containers are read; if its author "
                          "is trusted, save its state_dict alone" % (module, name))
        return known

    def set_items(self, pairs):
        target = self.stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            raise ValueError("items for a %s" % type(target).__name__)
        target.update((key_of(k), v) for k, v in zip(pairs[::2], pairs[1::2]))

    def append(self, items):
        target = self.stack[-1]
        if not isinstance(target, list):
            raise ValueError("elements for a %s" % type(target).__name__)
        target.extend(items)

    def build(self, state):
        """Sets attributes: kept for plain objects; those of dictionaries (_metadata) are not weights."""
        target = self.stack[-1]
        if isinstance(target, Plain):
            target.state = state
        elif not isinstance(target, dict):
            raise ValueError("attributes for a %s" % type(target).__name__)

    def call(self, arguments):
        known = self.stack.pop()
        if not isinstance(known, Known) or not isinstance(arguments, tuple):
            raise ValueError("a call of a %s" % type(known).__name__)
        self.stack.append(known.make(*arguments))

    def step(self, op, argument):
        stack = self.stack
        if op in LITERALS:
            stack.append(argument)
        elif op in CONSTANTS:
            stack.append(CONSTANTS[op])
        elif op in EMPTY:
            stack.append(EMPTY[op]())
        elif op in TUPLES:
            n = TUPLES[op]
            if len(stack) < n:
                raise IndexError("an empty stack")
            stack[-n:] = [tuple(stack[-n:])]
        elif op in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[argument] = stack[-1]
        elif op == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif op in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[argument])
        elif op == "MARK":
            self.below.append(stack)
            self.stack = []
        elif op == "TUPLE":
            items = tuple(self.since_mark())
            self.stack.append(items)
        elif op == "LIST":
            items = self.since_mark()
            self.stack.append(items)
        elif op == "DICT":
            items = self.since_mark()
            self.stack.append({})
            self.set_items(items)
        elif op == "FROZENSET":
            items = set_of(self.since_mark())
            self.stack.append(items)
        elif op == "SETITEMS":
            self.set_items(self.since_mark())
        elif op == "SETITEM":
            value, key = stack.pop(), stack.pop()
            self.set_items([key, value])
        elif op == "APPENDS":
            self.append(self.since_mark())
        elif op == "APPEND":
            self.append([stack.pop()])
        elif op == "ADDITEMS":
            items = set_of(self.since_mark())
            self.stack[-1].update(items)
        elif op == "GLOBAL":
            stack.append(self.named(*argument.split(" ", 1)))
        elif op == "STACK_GLOBAL":
            name, module = stack.pop(), stack.pop()
            stack.append(self.named(module, name))
        elif op in ("REDUCE", "NEWOBJ"):
            self.call(stack.pop())
        elif op == "BUILD":
            self.build(stack.pop())
        elif op == "BINPERSID":
            stack.append(self.persistent(stack.pop()))
        elif op == "POP":
            stack.pop()
        elif op == "POP_MARK":
            self.since_mark()
        elif op == "DUP":
            stack.append(stack[-1])
        elif op not in ("PROTO", "FRAME", "STOP"):
            raise Refused("its pickle has the instruction %s, which no torch.save writes" % op)


def read(file, find=lambda module, name: None, persistent=None):
    """The value of the pickle at `file`'s position, which moves to the pickle's end."""
    machine = Machine(find, persistent)
    try:
        for op, argument, _ in pickletools.genops(file):
            machine.step(op.name, argument)
        return machine.stack[-1]
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, UnicodeError) as e:
        raise Refused("its pickle is damaged: %s: %s" % (type(e).__name__, e)) from None
