"""Two configurations, key by key, with what happens to the state; and the configurations now in use.

What a change of a key means is part of its declaration (`configuration.settings.setting`). That of a stream's
key applies if the restore keeps everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from prequential.configfile.changes.trial import Effects, Pair, trials
from prequential.configuration.settings.by_key import setting_of
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import sides
from prequential.configuration.settings.streams import StreamConfig
from prequential.configuration.settings.texts import difference, of_rest, of_stream
from prequential.engine.snapshot.restored import Item
from prequential.topics.dead_letters import clock
from prequential.topics.foreign_json import Unreadable, reader
from prequential.views.state.output_records import OutputRecord

#: Stands for a key that isn't there.
_ABSENT: Any = object()


class KeyChange(msgspec.Struct, frozen=True):
    """One key that differs: what was and is, without secrets, and what it means for the state."""

    key: str
    values: list[str]
    #: In words; empty where the items below say it.
    state: str = ""
    begins_empty: list[str] = []
    ends: list[str] = []


class Section(msgspec.Struct, frozen=True):
    """What differs of streams that change alike, or of everything else (no streams)."""

    #: `defaults`, `streams.NAME`; empty: of the whole configuration.
    names: list[str]
    changes: list[KeyChange]
    #: Whether they have a section of their own only before, or only after.
    section: str = ""
    #: What the whole change keeps, and what begins and ends by keys together that none does alone.
    kept: list[str] = []
    begins_empty: list[str] = []
    ends: list[str] = []
    refused: str | None = None


class Difference(msgspec.Struct, frozen=True):
    """All that differs; the digests are those of `prequential_config_info`, before and after."""

    sections: list[Section]
    digests: tuple[str, str]
    #: Whether all begins empty, whatever differs else: the topics are others.
    anew: bool = False

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.sections


class _AlikeStreams(NamedTuple):
    """Streams whose settings change alike."""

    names: list[str]  # of their sections
    section: str  # whether they have sections of their own only before, or only after
    before: StreamConfig
    after: StreamConfig


def compare(
    before: Config, after: Config, tried: Callable[[Sequence[Pair]], list[Effects]] = trials
) -> Difference:
    """What differs, and what a worker that is started with `after` makes of state of `before`.

    `tried` returns the effect on state for pairs of settings of a stream. Raises WorkError if that fails.
    """
    sections = []
    anew = before.kafka.prefix != after.kafka.prefix
    if changes := list(_rest(of_rest(before), of_rest(after))):
        sections.append(Section([], changes))
    groups: dict[tuple[tuple[str, str], ...], _AlikeStreams] = {}
    names = ["defaults", *dict.fromkeys((*before.streams, *after.streams))]
    for name in names:
        was, now = before.defaults, after.defaults
        if name != "defaults":
            was, now = before.stream(name), after.stream(name)
        settings_before, settings_after = of_stream(was), of_stream(now)
        differing = tuple(
            (key, repr((settings_before[key], settings_after[key])))
            for key in _changed(settings_before, settings_after)
        )
        own = [name == "defaults" or name in config.streams for config in (before, after)]
        section = "" if all(own) else "removed" if own[0] else "added"
        if differing or section:
            section_name = name if name == "defaults" else f"streams.{name}"
            # What state there is depends on all settings: streams change alike if these do.
            alike = (*differing, (section, repr(was)))
            groups.setdefault(alike, _AlikeStreams([], section, was, now)).names.append(section_name)
    stream_groups = list(groups.values())
    sections += _of_streams(stream_groups, _nothing if anew else tried)
    return Difference(sections, (before.digest, after.digest), anew)


def _nothing(pairs: Sequence[Pair]) -> list[Effects]:
    """Of state that isn't found nothing becomes anything."""
    return [Effects()] * len(pairs)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    keys = dict.fromkeys((*before, *after))
    return [key for key in keys if before.get(key, _ABSENT) != after.get(key, _ABSENT)]


def _rest(before: dict[str, Any], after: dict[str, Any]) -> Iterator[KeyChange]:
    for key in _changed(before, after):
        was, now = before.get(key, _ABSENT), after.get(key, _ABSENT)
        if key.startswith(("files.", "ingest.")) or _ABSENT in (was, now):
            how = "added" if was is _ABSENT else "removed" if now is _ABSENT else "changed"
            values = [how]
        else:
            values = list(difference(key, was, now))
        yield KeyChange(key, values, setting_of(key).change)


# ---- streams


def _of_streams(
    groups: Sequence[_AlikeStreams], tried: Callable[[Sequence[Pair]], list[Effects]]
) -> Iterator[Section]:
    """Tries each change as a whole, and each key alone."""
    pairs: list[Pair] = []
    for streams in groups:
        before, after = streams.before, streams.after
        keys = _changed(of_stream(before), of_stream(after))
        alone = [(before, _with(before, after, [key])) for key in keys]
        pairs += [(before, after)] * bool(keys) + alone * (len(keys) > 1)
    effects = iter(tried(pairs) if pairs else [])
    for streams in groups:
        settings_before, settings_after = of_stream(streams.before), of_stream(streams.after)
        keys = _changed(settings_before, settings_after)
        whole = next(effects) if keys else Effects()
        of_keys = [next(effects) for _ in keys] if len(keys) > 1 else [whole]
        changes = []
        for key, own in zip(keys, of_keys):
            begun, ended = _names(own.begun & whole.begun), _names(own.ended & whole.ended)
            effect = "" if begun or ended or whole.refused else setting_of(key).change
            changes.append(
                KeyChange(
                    key,
                    list(difference(key, settings_before[key], settings_after[key])),
                    effect,
                    begun,
                    ended,
                )
            )
        yield Section(
            streams.names, changes, streams.section, _names(whole.kept),
            _names(whole.begun - frozenset().union(*(own.begun for own in of_keys))),
            _names(whole.ended - frozenset().union(*(own.ended for own in of_keys))),
            whole.refused,
        )  # fmt: skip


def _with(before: StreamConfig, after: StreamConfig, keys: Iterable[str]) -> StreamConfig:
    """The settings before, with some of those after."""
    changes: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {"period_alarms": {}}
    for key in keys:
        section, _, name = key.partition(".")
        if section in inner:
            inner[section][name] = getattr(getattr(after, section), name)
        else:
            changes[key.replace(".", "_")] = getattr(after, key.replace(".", "_"))
    changes |= {section: replace(getattr(before, section), **own) for section, own in inner.items()}
    config = replace(before, **changes)
    there = tuple(
        pair for pair in config.compare_stages
        if all(side in config.evaluated_stages for side in sides(pair))
    )  # fmt: skip
    return replace(config, compare_stages=there)


def _names(items: Iterable[Item]) -> list[str]:
    return [" ".join(filter(None, item)) for item in sorted(items)]


#: Names of streams that are written out.
_MOST_NAMES = 5


def lines(difference: Difference) -> Iterator[str]:
    """Section by section, key by key; nothing if nothing differs."""
    for section in difference.sections:
        yield from _section(section, difference.anew)
    if not difference.same:
        before, after = difference.digests
        if before == after:
            yield f"config {before[:12]} as before: outcomes are evaluated alike"
        else:
            yield f"config {before[:12]} -> {after[:12]} (prequential_config_info)"


#: What it means that a stream's section is there only before, or only after.
_SECTIONS = {
    "added": " (a section of its own; `defaults` held for it before)",
    "removed": " (no section of its own any more: `defaults` hold for it)",
}


def _section(section: Section, anew: bool) -> Iterator[str]:
    if section.names:
        yield f"{_some(section.names)}{_SECTIONS.get(section.section, '')}:"
    indent = "  " if section.names else ""
    for change in section.changes:
        # If streams start again completely, no more lines are needed.
        change_lines = list(_change(change))[: 1 if anew and section.names else None]
        yield from (indent + line for line in change_lines)
    if section.names and not section.changes:
        yield f"{indent}nothing differs"
    if section.refused:
        yield f"{indent}refused: {section.refused}"
        return
    if section.begins_empty:
        yield f"{indent}begin empty, by several keys together: {', '.join(section.begins_empty)}"
    if section.ends:
        yield f"{indent}end, by several keys together: {', '.join(section.ends)}"
    if section.kept and any(change.begins_empty or change.ends for change in section.changes):
        yield f"{indent}kept: {', '.join(section.kept)}"


def _change(change: KeyChange) -> Iterator[str]:
    yield f"{change.key}: {'; '.join(change.values)}"
    if change.state:
        yield f"  {change.state}"
    if change.begins_empty:
        yield f"  begins empty: {', '.join(change.begins_empty)}"
    if change.ends:
        yield f"  ends: {', '.join(change.ends)}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


class _Made(msgspec.Struct):
    """The fields of a metrics message about its configuration."""

    stream: str
    partition: int
    config: str


_decode = reader(_Made)


class Use(NamedTuple):
    """A configuration of a stream, in one partition: times are Kafka's of its messages (epoch ms)."""

    stream: str
    partition: int
    config: str
    messages: int
    first: int
    newest: int


def uses(records: Iterable[OutputRecord]) -> list[Use]:
    """By stream and partition the configurations of metrics messages, in the order in which they came last.

    What is no such message is passed over.
    """
    uses_by_key: dict[tuple[str, int, str], Use] = {}
    for _, value, time, _ in records:
        try:
            message = _decode(value or b"")
        except Unreadable:
            continue
        key = message.stream, message.partition, message.config
        use = uses_by_key.get(key) or Use(*key, 0, time, time)
        uses_by_key[key] = use._replace(
            messages=use.messages + 1, first=min(use.first, time), newest=max(use.newest, time)
        )
    return sorted(uses_by_key.values(), key=lambda use: (use.stream, use.partition, use.newest, use.config))


class Live(NamedTuple):
    """What of a configuration is live."""

    lines: list[str]
    #: Whether the newest messages of all streams are as it would have them.
    everywhere: bool


def live(config_uses: Iterable[Use], config: Config) -> Live:
    """In words, of streams with messages that aren't as `config` would have them; of the others their number.

    The newest messages of a partition are those of the worker that has its shard now.
    """
    by_stream: dict[str, list[Use]] = {}
    for use in config_uses:
        by_stream.setdefault(use.stream, []).append(use)
    lines, alike, everywhere = [], 0, True
    for name, its in by_stream.items():
        own = config.stream(name).digest
        if all(use.config == own for use in its):
            alike += 1
            continue
        newest = {use.partition: use for use in its}
        everywhere &= all(use.config == own for use in newest.values())
        for use in its:
            match_text = "as in the file" if use.config == own else "another than in the file"
            over = "" if newest[use.partition] is use else ", no more"
            lines.append(
                f"{name} partition {use.partition}: config {use.config[:12]}, {match_text}, messages from "
                f"{clock(use.first)} to {clock(use.newest)}: {use.messages:,}{over}"
            )
    lines.append(f"streams with messages as in the file alone: {alike:,}")
    return Live(lines, everywhere)
