"""A past to look back at: what was evaluated, and those of its sequences that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prequential.configuration.settings.model import Config
from prequential.offline.past.sequences import PastSequence, sequences
from prequential.offline.replay.sources import Located, place_of
from prequential.offline.replay.summary import Account, Summary, why
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Output
from prequential.topics.reasons import printable
from rich.progress import Progress

#: By which sequences can be chosen.
CHOICES = ("stream", "model", "segment", "stage")

#: How an option is spelled where it is given, by its name.
Spelled = Callable[[str], str]

#: … on a command line.
OPTION: Spelled = "--{}".format


def read_past(
    config: Config, sources: Sequence[Located] | None, put: Callable[[Output], None], progress: Progress
) -> tuple[list[PastSequence], Summary]:
    """All sequences of files, or (None) of the cluster's topics, and what became of their records.

    `put` takes alarms. Raises WorkError if nothing was evaluated, or something can't be read.
    """
    account = Account(place_of({one.kind: one for one in sources or ()}, config))
    past = sequences(config, sources, put, progress, account.add)
    summary = account.summary(None)
    if not past:
        raise WorkError(printable(why(summary, account.facts())))
    return past, summary


def watched(
    past: Sequence[PastSequence], wanted: Mapping[str, str | None], spelled: Spelled = OPTION
) -> list[PastSequence]:
    """The sequences that detectors watch, and whose names (`CHOICES`) are the `wanted` ones; None: any.

    Raises WorkError if there is none of a name.
    """
    chosen = [one for one in past if one.watched]
    for name, asked in wanted.items():
        if asked is not None:
            known = sorted({str(getattr(one, name)) for one in chosen})
            chosen = [one for one in chosen if getattr(one, name) == asked]
            if not chosen:
                raise WorkError(f"no sequence of {spelled(name)} {asked!r}: there are {', '.join(known)}")
    return chosen
