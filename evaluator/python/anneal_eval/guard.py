"""Finds out when a candidate's code has replaced what others rely on: a method of torch.Tensor, a function of Triton's."""

from operator import is_

_ABSENT = object()


class Guard:
    """What modules and classes hold now. A name that is added later is nobody's, unless it hides one of a class's bases."""

    def __init__(self, things):
        self._kept = [(one.__name__, vars(one), dict(vars(one)), _inherited(one)) for one in things]

    def changed(self):
        """The first name that stands for something else now, as `thing.name`; empty when there is none."""
        for thing, now, before, inherited in self._kept:
            if not all(map(is_, map(now.get, before), before.values())):
                for name, value in before.items():
                    if now.get(name, _ABSENT) is not value:
                        return f"{thing}.{name}"
            if len(now) != len(before):
                for name in inherited.keys() & now.keys():
                    if now[name] is not inherited[name]:
                        return f"{thing}.{name}"
        return ""


def _inherited(thing):
    """What a class's bases hold that it has no own of. `__annotations__` comes into being by being looked at."""
    held = {}
    for base in reversed(thing.__mro__[1:] if isinstance(thing, type) else ()):
        held.update(vars(base))
    return {name: value for name, value in held.items() if name not in vars(thing) and name != "__annotations__"}
