"""Details of messages as JSON: written from columns for all sequences of an estimator at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.positives import positives_of_plan
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.decimals import LONGEST_NUMBER, put_bytes, put_float, put_int
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner, kernel
from prequential.engine.compiled.mathematics import added, two_product
from prequential.engine.details import intervals, normalisation
from prequential.engine.details.curves import as_message as deciles_as_message
from prequential.engine.details.notes import Notes
from prequential.engine.details.references import ReadSequences, references_of, refers
from prequential.engine.details.shares import (
    NO_SHARES,
    SHARES,
    Matrices,
    Shares,
    SignPairs,
    binary_of,
    cells_of,
    classes_of,
    matrices_of,
    pairs_of,
    shares_of,
)
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.measuring import block_of
from prequential.engine.estimators.residuals import DETAIL as RESIDUALS
from prequential.engine.estimators.score_histogram import SCORES
from prequential.engine.measures import per_class
from prequential.engine.measures.declaration import DEFINED, NO_POSITIVE, SUM_DETAILS
from prequential.engine.output.coverage_texts import ClassNames
from prequential.engine.output.estimates import MessageSubject
from prequential.engine.output.fields import TextPool, as_bytes, put_comma, put_text, size_of
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import JointCells
from prequential.engine.tables.scores import NO_WEIGHT
from prequential.topics.encoding import fields_of
from prequential.topics.outputs import Metrics
from prequential.topics.values import labels_of

#: Fields of a message that the configuration can add, in their order.
_FIELDS = Metrics.__struct_fields__
_DETAILS = _FIELDS[_FIELDS.index("coverage") + 1 :]

#: Details of classes that one loop writes, as bits.
_WRITTEN = ("confusion", "per_class", "normalised", "class_ratio", "intervals", "dependence", SCORES)
_CONFUSION, _PER_CLASS, _NORMALISED, _CLASS_RATIO, _INTERVALS, _DEPENDENCE, _SCORES = (
    1 << number for number in range(len(_WRITTEN))
)

#: An upper bound of the bytes of a message's details, but for those of classes, scores and other texts.
_AROUND = 2_000

#: Numbers of matrices by class that are kept at once, for each of their eight columns.
_MOST_CLASSES = 1 << 15

#: Bytes around a class's name and its numbers.
_AROUND_CLASS = 64 + 4 * LONGEST_NUMBER

_KEYS = TextPool.from_texts(
    [b'"%b":' % name.encode() for name in (*normalisation.MEASURES, *SHARES)]
)  # by number: those of normalised measures, then those of shares

_COMMA, _BEGIN, _END, _OPEN, _CLOSE = (ord(character) for character in ",{}[]")
_CONFUSION_KEY, _PER_CLASS_KEY = as_bytes(b'"confusion":{'), as_bytes(b'"per_class":{')
_SUPPORT, _PRECISION = as_bytes(b'{"support":'), as_bytes(b',"precision":')
_RECALL, _F1 = as_bytes(b',"recall":'), as_bytes(b',"f1":')
_NORMALISED_KEY, _INTERVALS_KEY = as_bytes(b'"normalised":{'), as_bytes(b'"intervals":{')
_RATIO_KEY, _GRADIENTS = as_bytes(b'"class_ratio":{"positives":'), as_bytes(b',"gradients":{')
_MOVING, _RATIO_END = as_bytes(b'},"moving":['), as_bytes(b"]}")
_CLUSTER_KEY, _COUNT = as_bytes(b'"cluster":{"length_ms":'), as_bytes(b',"count":')
_EFFECTIVE, _FEW = as_bytes(b',"effective":'), as_bytes(b',"reason":"few_clusters"')
_DEPENDENCE_KEY, _CORRELATION = as_bytes(b'"dependence":{'), as_bytes(b'"error_autocorrelation":')
_CORRELATION_SE = as_bytes(b',"error_autocorrelation_se":')
_SCORES_KEY, _NEGATIVES = as_bytes(b'"scores":{"bins":['), as_bytes(b'],"negatives":[')
_POSITIVES = as_bytes(b'],"positives":[')


class DetailedLine(NamedTuple):
    """A line of messages that may have details."""

    row: int  # of its entity
    stream: Stream
    subject: MessageSubject


class LabelsInSets(NamedTuple):
    """The labels in the classes of streams whose classes are sets of labels, by row of a reading."""

    members: Bytes  # for each stream by class, then by label in order of names: whether it is in the set
    first: Ints  # where the members of the row's stream begin
    width: Ints  # labels of the row's stream
    is_any: Bytes  # whether the classes of the row's stream are sets
    names: Ints  # the first of the labels' names


class WrittenDetails(NamedTuple):
    """What the details of an estimator's sequences are written from, by row of a reading."""

    chosen: int  # the bits of the configured details
    whole: bool  # whether each outcome counts 1
    pairs: SignPairs
    sizes: Floats  # as how many equal pairs the pairs of errors count
    shares: Shares
    lengths: Ints  # of clusters, ms
    shows_cluster: Bytes  # whether to name the clusters that intervals rest on
    histogram: Floats  # (rows, `SCORE_WIDTH`); no rows if none are kept
    names: Ints  # by row, where the names of its stream's classes begin in `name_texts`
    name_texts: Ints  # numbers of names in `pool`: by stream those of its classes, or of its labels
    pool: TextPool  # names as JSON with a colon
    longest: int  # the largest number of bytes of a name
    sets: LabelsInSets
    texts: TextPool  # …of fields that are written elsewhere
    dependence: Ints  # by row, which text is in `dependence`, -1: none
    worse: Ints  # … is `worse_than_baseline`
    reference: Ints  # … is `reference`


def has_details(config: StreamConfig) -> bool:
    """Whether messages of a stream with these settings may have details."""
    return bool(config.details) or refers(config)


class DetailTexts:
    """Writes the details of messages about a catalog's entities."""

    def __init__(
        self, catalog: Catalog, notes: Notes, cluster_of: Callable[[int], int], class_names: ClassNames
    ) -> None:
        self._catalog, self._notes = catalog, notes
        self._cluster_of = cluster_of  # by stream: the length of its clusters now (ms), 0 without
        self._class_names = class_names
        self._out = np.empty(0, dtype=np.uint8)

    def texts(self, lines: Sequence[DetailedLine]) -> tuple[TextPool, Ints]:
        """The details of these lines as fields; returns texts, and by line which one it has, -1: none."""
        indices = np.full(len(lines), -1, dtype=np.int64)
        pools: list[TextPool] = []
        labels: dict[int, bytes] = {}  # by entity's row: how its labels depend on each other
        others: list[bytes] = []
        other_lines: list[int] = []
        count = 0
        for plan, estimator_index, members in self._groups(lines):
            estimator = plan.estimators[estimator_index]
            numbers = np.array(members, dtype=np.int64)
            if plan.numbers:
                other_lines += members
                others += [self._of_numbers(plan, estimator, lines[number]) for number in members]
                continue
            for start in range(0, len(numbers), step := _step(estimator)):
                block = numbers[start : start + step]
                chosen = [lines[number] for number in block.tolist()]
                for pool in self._of_block(plan, estimator, chosen, labels):
                    stop = count + len(pool.ends)
                    sizes = np.diff(pool.ends, prepend=0)
                    indices[block[: len(sizes)]] = np.where(sizes > 0, np.arange(count, stop), -1)
                    block, count = block[len(sizes) :], stop
                    pools.append(pool)
        for number, line in enumerate(lines):  # of several stages
            if len(line.subject.positions) > 1 and not line.subject.chance:
                other_lines.append(number)
                others.append(self._worse(line))
        if others:
            places = np.array(other_lines, dtype=np.int64)
            sizes = np.fromiter(map(len, others), np.int64, len(others))
            indices[places] = np.where(sizes > 0, np.arange(count, count + len(others)), -1)
            pools.append(TextPool.from_texts(others))
        return TextPool.of_pools(pools), indices

    def objects(self, lines: Sequence[DetailedLine]) -> list[dict[str, Any]]:
        """By line, its details by name, as its message has them."""
        indices = [index for index, line in enumerate(lines) if has_details(line.stream.config)]
        objects: list[dict[str, Any]] = [{} for _ in lines]
        texts, numbers = self.texts([lines[index] for index in indices])
        text, ends = texts.text.tobytes(), [*texts.ends.tolist(), 0]
        for index, number in zip(indices, numbers.tolist()):
            if number >= 0:
                objects[index] = msgspec.json.decode(b"{%b}" % text[ends[number - 1] : ends[number]])
        return objects

    def _groups(self, lines: Sequence[DetailedLine]) -> Iterator[tuple[Plan, int, list[int]]]:
        """The lines of single stages that may have details, as numbers, by plan and estimator."""
        plans = self._catalog.columns.entities.plan[[line.row for line in lines]].tolist()
        groups: dict[tuple[int, int], list[int]] = {}
        for number, (line, plan) in enumerate(zip(lines, plans)):
            subject = line.subject
            if len(subject.positions) == 1 and not subject.chance:
                groups.setdefault((plan, subject.estimator_index), []).append(number)
        for (plan, estimator_index), members in groups.items():
            yield self._catalog.plans[plan], estimator_index, members

    def _worse(self, line: DetailedLine) -> bytes:
        """The field `worse_than_baseline`, if it is configured."""
        if "worse_than_baseline" not in line.stream.config.details:
            return b""
        noted = self._notes.worse.get(line.row)
        if not noted:
            return b'"worse_than_baseline":{}'
        key = line.subject.stage, line.subject.estimator
        worse = {baseline: since for (*place, baseline), since in noted.items() if tuple(place) == key}
        return fields_of({"worse_than_baseline": worse})

    def _of_numbers(self, plan: Plan, estimator: Estimator, line: DetailedLine) -> bytes:
        """Deciles of predicted numbers, if there are enough outcomes, and details of sums of scores."""
        names = line.stream.config.details
        sequence = int(self._catalog.columns.entities.first[line.row]) + line.subject.positions[0]
        details: dict[str, Any] = {}
        bins = estimator.residuals_of(sequence) if RESIDUALS in names else None
        deciles = None if bins is None else deciles_as_message(bins)
        if deciles is not None:
            details[RESIDUALS] = deciles
        of_sums = [name for name in names if name in SUM_DETAILS]
        sums = estimator.scores_of(sequence) if of_sums else None
        if sums is not None:
            declared = {name: SUM_DETAILS[name] for name in of_sums}
            details |= {
                name: detail.function(sums)
                for name, detail in declared.items()
                if sums[detail.part.sums[0]] >= NO_WEIGHT
            }
        return fields_of({name: details[name] for name in _DETAILS if name in details})

    def _of_block(
        self, plan: Plan, estimator: Estimator, lines: Sequence[DetailedLine], labels: dict[int, bytes]
    ) -> Iterator[TextPool]:
        """The details of an estimator's lines, in order; `labels` gets texts about labels by entity's row."""
        config, entities = plan.config, self._catalog.columns.entities
        rows = np.array([line.row for line in lines], dtype=np.int64)
        positions = np.array([line.subject.positions[0] for line in lines], dtype=np.int64)
        sequences = entities.first[rows].astype(np.int64) + positions
        estimator.widen()
        counted = estimator.cells.counted(sequences)
        positives = positives_of_plan(self._catalog, plan)
        matrices = matrices_of(estimator, counted, sequences, positives)
        pairs, shares = pairs_of(estimator, sequences), NO_SHARES
        lengths = np.zeros(len(lines), dtype=np.int64)
        refers_here = [
            plan.reference is not None and line.subject.stage == config.main_stage for line in lines
        ]
        if estimator.pairs:
            has_intervals = "intervals" in config.details
            lengths[:] = [
                self._cluster_of(line.stream.code) if has_intervals or has_reference else 0
                for line, has_reference in zip(lines, refers_here)
            ]
            shares = shares_of(estimator, sequences, matrices, pairs, lengths)
        references: list[dict[str, Any] | None] = [None] * len(lines)
        if plan.reference is not None and any(refers_here):
            present = ReadSequences(
                sequences, counted, matrices, pairs, shares, entities.outcomes[rows].astype(np.int64),
                entities.newest_ts[rows].astype(np.int64),
            )  # fmt: skip
            compared = references_of(plan.reference, estimator, positives, present, config.measures)
            references = [message if here else None for message, here in zip(compared, refers_here)]
        written = self._written(plan, estimator, lines, sequences, references, labels, shares, pairs, lengths)
        yield from self._write(matrices, written)

    def _written(
        self, plan: Plan, estimator: Estimator, lines: Sequence[DetailedLine], sequences: Ints,
        references: Sequence[dict[str, Any] | None], labels: dict[int, bytes], shares: Shares,
        pairs: SignPairs, lengths: Ints,
    ) -> WrittenDetails:  # fmt: skip
        """What the details of these lines are written from."""
        details = plan.config.details
        texts: list[bytes] = []
        dependence = self._label_texts(lines, labels, texts) if "dependence" in details else _none(lines)
        worse, reference = _none(lines), _none(lines)
        for number, line in enumerate(lines):
            if text := self._worse(line):
                worse[number] = len(texts)
                texts.append(text)
        for number, message in enumerate(references):
            if message is not None:
                reference[number] = len(texts)
                texts.append(fields_of({"reference": message}))
        sizes = np.zeros(len(lines))
        if estimator.pairs and "dependence" in details:
            weights = [added(row) for row in pairs.wrong.tolist()]
            sizes[:] = [
                estimator.effective(sequence, n, True) for sequence, n in zip(sequences.tolist(), weights)
            ]
        histogram = np.zeros((0, scores.SCORE_WIDTH))
        if SCORES in details and estimator.histogram is not None:
            histogram = estimator.histogram.counted(sequences).cells
        names, name_texts, longest, sets = self._names(lines)
        chosen = sum(1 << number for number, name in enumerate(_WRITTEN) if name in details)
        shows_cluster = (reference >= 0) | ("intervals" in details)
        return WrittenDetails(
            chosen, bool(estimator.memory.whole), pairs, sizes, shares, lengths,
            shows_cluster.astype(np.uint8), histogram, names, name_texts, self._class_names.pool, longest,
            sets, TextPool.from_texts(texts), dependence, worse, reference,
        )  # fmt: skip

    def _label_texts(
        self, lines: Sequence[DetailedLine], labels: dict[int, bytes], texts: list[bytes]
    ) -> Ints:
        """By line, which of the texts has how labels depend on each other; they are appended.

        `labels` gets those that it doesn't have yet, by entity's row.
        """
        indices = _none(lines)
        for number, line in enumerate(lines):
            noted = self._notes.labels.get(line.row)
            if noted is None:
                continue
            if line.row not in labels:
                labels[line.row] = fields_of(noted.report(line.stream.class_names))
            indices[number] = len(texts)
            texts.append(labels[line.row])
        return indices

    def _names(self, lines: Sequence[DetailedLine]) -> tuple[Ints, Ints, int, LabelsInSets]:
        """By line, where the names of its stream's classes begin; all names; their bytes; labels in sets."""
        begins: dict[int, int] = {}
        names: list[Ints] = []
        sets: dict[int, tuple[int, int, int]] = {}  # by stream: its members, labels, names
        members: list[Bytes] = []
        count = room = 0
        for line in lines:
            stream = line.stream
            if stream.code in begins:
                continue
            begins[stream.code] = count
            names.append(self._class_names.of_stream(stream))
            count += len(names[-1])
            if stream.config.has_sets:
                labels, matrix = _labels_in(stream.class_names)
                sets[stream.code] = room, len(labels), count
                members.append(matrix.ravel())
                names.append(self._class_names.of_names(labels))
                count, room = count + len(labels), room + matrix.size
        name_texts = np.concatenate([*names, np.zeros(0, dtype=np.int64)])
        pool = self._class_names.pool
        longest = int(np.diff(pool.ends, prepend=0)[name_texts].max(initial=0))
        codes = [line.stream.code for line in lines]
        places = np.array([sets.get(code, (0, 0, 0)) for code in codes], dtype=np.int64).T.copy()
        is_any = np.array([code in sets for code in codes], dtype=np.uint8)
        all_members = np.concatenate([*members, np.zeros(0, dtype=np.uint8)])
        labels_in_sets = LabelsInSets(all_members, places[0], places[1], is_any, places[2])
        return np.array([begins[code] for code in codes], dtype=np.int64), name_texts, longest, labels_in_sets

    def _write(self, matrices: Matrices, written: WrittenDetails) -> Iterator[TextPool]:
        """Write all rows, as many at once as there is room for."""
        rows, first = len(matrices.n), 0
        ends = np.zeros(rows, dtype=np.int64)
        scratch, by_label = np.empty(8), np.empty((4, int(written.sets.width.max(initial=0))))
        while first < rows:
            stop = _write(self._out, ends, first, matrices, written, _KEYS, scratch, by_label)
            if stop == first:
                self._out = np.empty(max(1 << 16, 2 * len(self._out)), dtype=np.uint8)
                continue
            yield TextPool(self._out[: int(ends[stop - 1]) + 1].copy(), ends[first:stop].copy())
            first = stop


def _none(lines: Sequence[DetailedLine]) -> Ints:
    return np.full(len(lines), -1, dtype=np.int64)


def _step(estimator: Estimator) -> int:
    """How many sequences are read at once: about 2 MiB, with their matrices by class."""
    payloads = [accumulator.payload for accumulator in estimator.accumulators()]
    return min(block_of(*payloads), max(1, _MOST_CLASSES // estimator.capacity))


def _labels_in(class_names: Sequence[str]) -> tuple[list[str], Bytes]:
    """The labels in sets, sorted, and by set and label whether the set has it.

    >>> _labels_in(['["b","a"]', "[]", '["b"]'])
    (['a', 'b'], array([[1, 1],
           [0, 0],
           [0, 1]], dtype=uint8))
    """
    sets = [frozenset(labels_of(name)) for name in class_names]
    labels = sorted(frozenset().union(*sets))
    members = np.array([[label in labels_in_set for label in labels] for labels_in_set in sets], np.uint8)
    return labels, members.reshape(len(sets), len(labels))


# ---- the loop that writes


@kernel
def _write(
    out: Bytes, ends: Ints, first: int, m: Matrices, w: WrittenDetails, keys: TextPool, scratch: Floats,
    by_label: Floats,
) -> int:  # fmt: skip
    """Write the details of rows from `first` on while there is room; returns the next row.

    `ends`: by row, where it ends in `out`. `scratch`, (8,), and `by_label`, (4, labels): scratch arrays.
    """
    position = 0
    for i in range(first, len(m.n)):
        cells = cells_of(m, i, w.whole)
        if position + _room(m, i, cells, w) > len(out):
            return i
        begin = position
        if m.n[i] > 0.0:
            position = _put_of_classes(out, begin, position, i, cells, m, w, keys, scratch, by_label)
            position = _put_intervals(out, begin, position, i, w, keys)
            position = _put_dependence(out, begin, position, i, w)
        position = _put_other(out, begin, position, w, w.worse[i])
        if m.n[i] > 0.0:
            if len(w.histogram):
                position = _put_scores(out, begin, position, w.histogram[i], w.whole)
            position = _put_other(out, begin, position, w, w.reference[i])
        ends[i] = position
    return len(m.n)


@inner
def _room(m: Matrices, i: int, cells: JointCells, w: WrittenDetails) -> int:
    """An upper bound of the bytes that a row takes."""
    k = m.classes.shape[2]
    room = _AROUND + 3 * scores.SCORE_BINS * (LONGEST_NUMBER + 1)
    pairs = len(cells.keys) if outcomes.is_listed(cells) else k * k
    if w.chosen & _CONFUSION:
        room += pairs * (2 * w.longest + LONGEST_NUMBER + 4)
    if w.chosen & _PER_CLASS:
        room += max(k, w.sets.width[i]) * (w.longest + _AROUND_CLASS)
    for text in (w.dependence[i], w.worse[i], w.reference[i]):
        room += size_of(w.texts, text) if text >= 0 else 0
    return room


@inner
def _put_other(out: Bytes, begin: int, position: int, w: WrittenDetails, text: int) -> int:
    """Write a field that is a text of its own; -1: there is none."""
    return put_text(out, put_comma(out, begin, position), w.texts, text) if text >= 0 else position


@inner
def _put_of_classes(
    out: Bytes, begin: int, position: int, i: int, cells: JointCells, m: Matrices, w: WrittenDetails,
    keys: TextPool, scratch: Floats, by_label: Floats,
) -> int:  # fmt: skip
    """Write `confusion`, `per_class`, `normalised` and `class_ratio`."""
    if w.chosen & _CONFUSION:
        position = _put_confusion(out, put_comma(out, begin, position), cells, m.classes.shape[2], w, i)
    if w.chosen & _PER_CLASS:
        position = put_comma(out, begin, position)
        if w.sets.width[i]:
            _sum_labels(cells, m.classes.shape[2], w.sets, i, by_label)
        position = _put_per_class(out, position, m, w, i, by_label)
    if m.positive[i] == NO_POSITIVE:
        return position
    b = binary_of(m, i)
    if w.chosen & _NORMALISED and w.whole:
        position = put_comma(out, begin, position)
        position = put_bytes(out, position, _NORMALISED_KEY, 0, len(_NORMALISED_KEY))
        has_values = normalisation.put_normalised(b, scratch)
        for number in range(len(normalisation.MEASURES) if has_values else 0):
            position = _put_number(out, position, keys, number, scratch[number])
        position = _put_end(out, position)
    if w.chosen & _CLASS_RATIO:
        normalisation.put_gradients(b, scratch)
        share = (b.tp + b.fn) / m.n[i]
        position = _put_class_ratio(out, put_comma(out, begin, position), share, scratch, keys)
    return position


@inner
def _put_end(out: Bytes, position: int) -> int:
    """End an object."""
    out[position] = _END
    return position + 1


@inner
def _put_number(out: Bytes, position: int, keys: TextPool, key: int, value: float) -> int:
    """Write a number behind its key."""
    position = put_text(out, put_comma(out, 0, position), keys, key)
    return put_float(out, position, value)


@inner
def _put_class_name(out: Bytes, position: int, w: WrittenDetails, name: int) -> int:
    """Write a class's name and a colon; `name` is its place in `name_texts`."""
    return put_text(out, put_comma(out, 0, position), w.pool, w.name_texts[name])


@inner
def _put_confusion(out: Bytes, position: int, cells: JointCells, k: int, w: WrittenDetails, i: int) -> int:
    """Write the weight of outcomes by label, then by prediction, where there are any."""
    position = put_bytes(out, position, _CONFUSION_KEY, 0, len(_CONFUSION_KEY))
    last = -1
    if outcomes.is_listed(cells):
        index = 0
        while index < len(cells.keys):
            y, h = outcomes.label_of(cells.keys[index]), outcomes.prediction_of(cells.keys[index])
            index, weight = outcomes.listed_weight(cells, index)
            position = _put_cell(out, position, last, y, h, weight, w, i)
            last = y
    else:
        for pair in range(k * k):
            weight = outcomes.weight_of(cells.weights, pair)
            if weight != 0.0:
                position = _put_cell(out, position, last, pair // k, pair % k, weight, w, i)
                last = pair // k
    return _put_end(out, _put_end(out, position))


@inner
def _put_cell(
    out: Bytes, position: int, last: int, y: int, h: int, weight: float, w: WrittenDetails, i: int
) -> int:
    """Write a cell of the confusion matrix; `last`: the label of the one before, -1: it is the first."""
    if y != last:
        if last >= 0:
            position = _put_end(out, position)
        position = _put_class_name(out, position, w, w.names[i] + y)
        out[position] = _BEGIN
        position += 1
    return put_float(out, _put_class_name(out, position, w, w.names[i] + h), weight)


@inner
def _sum_labels(cells: JointCells, k: int, sets: LabelsInSets, i: int, into: Floats) -> None:
    """Count outcomes of a row by label: in both sets, in the true set only, in the predicted set only."""
    for count in range(3):
        for label in range(sets.width[i]):
            into[count, label] = 0.0
    if outcomes.is_listed(cells):
        index = 0
        while index < len(cells.keys):
            y, h = outcomes.label_of(cells.keys[index]), outcomes.prediction_of(cells.keys[index])
            index, weight = outcomes.listed_weight(cells, index)
            _add_labels(y, h, weight, sets, i, into)
    else:
        for pair in range(k * k):
            weight = outcomes.weight_of(cells.weights, pair)
            if weight != 0.0:
                _add_labels(pair // k, pair % k, weight, sets, i, into)


@inner
def _add_labels(y: int, h: int, weight: float, sets: LabelsInSets, i: int, into: Floats) -> None:
    """Add outcomes with these sets to the counts of `_sum_labels`."""
    width = sets.width[i]
    true, predicted = sets.first[i] + y * width, sets.first[i] + h * width
    for label in range(width):
        is_true, is_predicted = sets.members[true + label] > 0, sets.members[predicted + label] > 0
        if is_true or is_predicted:
            into[0 if is_true and is_predicted else 1 if is_true else 2, label] += weight


@inner
def _put_per_class(
    out: Bytes, position: int, m: Matrices, w: WrittenDetails, i: int, by_label: Floats
) -> int:
    """Write `precision`, `recall`, `f1` and `support` (labels) of each class present; of sets, each label."""
    position = put_bytes(out, position, _PER_CLASS_KEY, 0, len(_PER_CLASS_KEY))
    if w.sets.width[i]:
        for label in range(w.sets.width[i]):
            b = per_class.Binary(by_label[0, label], by_label[1, label], by_label[2, label], 0.0)
            position = _put_class(out, position, b, w, w.sets.names[i] + label)
    elif not w.sets.is_any[i]:
        c = classes_of(m, i)
        for code in range(len(c.labels)):
            b = per_class.Binary(c.hits[code], c.missed[code], c.false[code], 0.0)
            position = _put_class(out, position, b, w, w.names[i] + code)
    return _put_end(out, position)


@inner
def _put_class(out: Bytes, position: int, b: per_class.Binary, w: WrittenDetails, name: int) -> int:
    """Write the values of a class against all others, if it has a label or a prediction."""
    labels, predictions = b.tp + b.fn, b.tp + b.fp
    if labels == 0.0 and predictions == 0.0:
        return position
    position = _put_class_name(out, position, w, name)
    position = put_bytes(out, position, _SUPPORT, 0, len(_SUPPORT))
    position = put_float(out, position, labels)
    value, reason = per_class.precision(b)
    if reason == DEFINED:
        position = put_float(out, put_bytes(out, position, _PRECISION, 0, len(_PRECISION)), value)
    value, reason = per_class.recall(b)
    if reason == DEFINED:
        position = put_float(out, put_bytes(out, position, _RECALL, 0, len(_RECALL)), value)
    value, reason = per_class.f1(b)
    if reason == DEFINED:
        position = put_float(out, put_bytes(out, position, _F1, 0, len(_F1)), value)
    return _put_end(out, position)


@inner
def _put_class_ratio(out: Bytes, position: int, share: float, gradients: Floats, keys: TextPool) -> int:
    """Write the share of positives, and how measures move with it alone (NaN: no value)."""
    position = put_bytes(out, position, _RATIO_KEY, 0, len(_RATIO_KEY))
    position = put_float(out, position, share)
    position = put_bytes(out, position, _GRADIENTS, 0, len(_GRADIENTS))
    for number in range(len(normalisation.MEASURES)):
        if gradients[number] == gradients[number]:
            position = _put_number(out, position, keys, number, gradients[number])
    position = put_bytes(out, position, _MOVING, 0, len(_MOVING))
    is_first = True
    for number in range(len(normalisation.MEASURES)):
        if abs(gradients[number]) > normalisation.TOLERANCE:
            if not is_first:
                out[position] = _COMMA
                position += 1
            stop = keys.ends[number]
            position = put_bytes(out, position, keys.text, stop - size_of(keys, number), stop - 1)  # no colon
            is_first = False
    return put_bytes(out, position, _RATIO_END, 0, len(_RATIO_END))


@inner
def _put_intervals(out: Bytes, begin: int, position: int, i: int, w: WrittenDetails, keys: TextPool) -> int:
    """Write `intervals` of shares that have one, and `cluster`, the clusters behind them."""
    if not len(w.shares.clusters):
        return position
    if w.chosen & _INTERVALS:
        is_first = True
        for share in range(len(SHARES)):
            low, high = w.shares.low[i, share], w.shares.high[i, share]
            if w.shares.whole[i, share] == 0.0 or low != low:
                continue
            if is_first:
                position = put_comma(out, begin, position)
                position = put_bytes(out, position, _INTERVALS_KEY, 0, len(_INTERVALS_KEY))
            position = put_text(out, put_comma(out, 0, position), keys, len(normalisation.MEASURES) + share)
            out[position] = _OPEN
            position = put_float(out, position + 1, low)
            out[position] = _COMMA
            position = put_float(out, position + 1, high)
            out[position] = _CLOSE
            position += 1
            is_first = False
        if not is_first:
            position = _put_end(out, position)
    if w.shares.clusters[i] and w.shows_cluster[i]:
        position = put_comma(out, begin, position)
        position = put_bytes(out, position, _CLUSTER_KEY, 0, len(_CLUSTER_KEY))
        position = put_int(out, position, w.lengths[i])
        position = put_bytes(out, position, _COUNT, 0, len(_COUNT))
        position = put_int(out, position, w.shares.clusters[i])
        position = put_bytes(out, position, _EFFECTIVE, 0, len(_EFFECTIVE))
        position = put_float(out, position, in_hundredths(w.shares.effective[i]))
        if w.shares.effective[i] < intervals.LEAST_CLUSTERS:
            position = put_bytes(out, position, _FEW, 0, len(_FEW))
        position = _put_end(out, position)
    return position


@inner
def in_hundredths(x: float) -> float:
    """A number of at least 0, rounded to two decimals as Python's `round` does.

    >>> [in_hundredths(x) == round(x, 2) for x in (2.675, 1.125, 0.005, 3.0, 1e6 + 1 / 3)]
    [True, True, True, True, True]
    """
    product, rest = two_product(float(x), 100.0)
    whole = math.floor(product)
    beyond = (product - whole) - 0.5
    is_up = beyond > 0.0 or (beyond == 0.0 and (rest > 0.0 or (rest == 0.0 and whole % 2 == 1)))
    return float(whole + (1 if is_up else 0)) / 100.0


@inner
def _put_dependence(out: Bytes, begin: int, position: int, i: int, w: WrittenDetails) -> int:
    """Write whether errors depend on each other, and a text about labels behind it (2015 paper, prop. 8)."""
    if not w.chosen & _DEPENDENCE or not len(w.pairs.wrong):
        return position
    position = put_comma(out, begin, position)
    position = put_bytes(out, position, _DEPENDENCE_KEY, 0, len(_DEPENDENCE_KEY))
    correlation = intervals.autocorrelation(w.pairs.wrong[i])
    if correlation == correlation:
        position = put_bytes(out, position, _CORRELATION, 0, len(_CORRELATION))
        position = put_float(out, position, correlation)
        position = put_bytes(out, position, _CORRELATION_SE, 0, len(_CORRELATION_SE))
        position = put_float(out, position, 1 / math.sqrt(w.sizes[i]))
    text = w.dependence[i]
    if text >= 0 and size_of(w.texts, text):
        position = put_text(out, put_comma(out, 0, position), w.texts, text)
    return _put_end(out, position)


@inner
def _put_scores(out: Bytes, begin: int, position: int, cells: Floats, whole: bool) -> int:
    """Write a histogram of scores, (SCORE_WIDTH,): bins with outcomes, from 0, and their counts by class.

    Nothing is written if there are no scores, or if labels don't determine the positive class.
    """
    last = -1
    for bin_number in range(scores.SCORE_BINS):
        if cells[scores.NEGATIVES + bin_number] + cells[scores.POSITIVES + bin_number] != 0.0:
            last = bin_number
    if last < 0 or cells[scores.WITHOUT_POSITIVE] != 0.0:
        return position
    position = put_comma(out, begin, position)
    position = put_bytes(out, position, _SCORES_KEY, 0, len(_SCORES_KEY))
    for column in range(3):
        if column == 1:
            position = put_bytes(out, position, _NEGATIVES, 0, len(_NEGATIVES))
        elif column == 2:
            position = put_bytes(out, position, _POSITIVES, 0, len(_POSITIVES))
        start = scores.POSITIVES if column == 2 else scores.NEGATIVES
        for bin_number in range(last + 1):
            if cells[scores.NEGATIVES + bin_number] + cells[scores.POSITIVES + bin_number] == 0.0:
                continue
            if column == 0:
                position = put_int(out, position, bin_number)
            elif whole:
                position = put_int(out, position, int(cells[start + bin_number]))
            else:
                position = put_float(out, position, cells[start + bin_number])
            if bin_number != last:
                out[position] = _COMMA
                position += 1
    return put_bytes(out, position, _RATIO_END, 0, len(_RATIO_END))
