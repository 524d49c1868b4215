"""Finds out when a candidate's code has replaced what others rely on: a method of torch.Tensor, a function of Triton's."""

from operator import is_

_ABSENT = object()


class Guard:
    """What modules and classes hold now. Names that are added later are nobody's yet."""

    def __init__(self, things):
        self._kept = [(one.__name__, vars(one), dict(vars(one))) for one in things]

    def changed(self):
        """The first name that stands for something else now, as `thing.name`; empty when there is none."""
        for thing, now, before in self._kept:
            if all(map(is_, map(now.get, before), before.values())):
                continue
            for name, value in before.items():
                if now.get(name, _ABSENT) is not value:
                    return f"{thing}.{name}"
        return ""
