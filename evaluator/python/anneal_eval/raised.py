"""What a candidate raised, as text. The class may be the file's own: it may say nothing, or without end, and what it was
raised for may go in circles."""

import traceback

MOST_CHARS = 20_000  # of one exception's text: its first and its last half
MOST_BEHIND = 8
# Read past whatever a class of the file's has under these names.
_name = type.__dict__["__name__"].__get__
_traceback, _cause = BaseException.__traceback__.__get__, BaseException.__cause__.__get__
_context, _suppresses = BaseException.__context__.__get__, BaseException.__suppress_context__.__get__
_members = BaseExceptionGroup.exceptions.__get__


def name_of(error):
    return str.__getitem__(_name(type(error)), slice(200))


def text_of(error):
    """str(error), not longer than MOST_CHARS; of what cannot be said, that."""
    try:
        text = str(error)
        count = str.__len__(text)
        if count <= MOST_CHARS:
            return str.__getitem__(text, slice(count))  # a str itself, not of a class of the file's
        half = MOST_CHARS // 2
        return str.__getitem__(text, slice(half)) + "\n...\n" + str.__getitem__(text, slice(count - half, count))
    except BaseException:
        return "<it cannot be said>"


def frames_of(error):
    return traceback.extract_tb(_traceback(error)) if _traceback(error) is not None else []


def causes_of(error):
    """What it was raised from, that one's cause, and so on: each once."""
    seen = {id(error)}
    while (error := _cause(error)) is not None and id(error) not in seen and len(seen) <= MOST_BEHIND:
        seen.add(id(error))
        yield error


def behind(error):
    """A line for each exception that this one was raised for, or holds, as a group does."""
    lines, seen = [], {id(error)}
    while error is not None and len(seen) <= MOST_BEHIND:
        if issubclass(type(error), BaseExceptionGroup):
            lines += [f"of them {_line(one)}" for one in _members(error)[:3]]
        error, how = _reason(error)
        if error is None or id(error) in seen:
            break
        seen.add(id(error))
        lines.append(f"{how} {_line(error)}")
    return lines


def _reason(error):
    if _cause(error) is not None:
        return _cause(error), "caused by"
    return (None if _suppresses(error) else _context(error)), "while handling"


def _line(error):
    return f"{name_of(error)}: {text_of(error)}"
