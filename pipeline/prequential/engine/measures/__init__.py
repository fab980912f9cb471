"""The measures: from an estimator's cells and sums to values, or to the reason why there is none.

A measure is declared at its function (`declaration`): name, inputs, range, direction, help, formula and
source. All other parts read the `registry`: the loops that fill a column for each measure (`table`),
configuration, messages, signals, objectives, exporter, dashboard and the tables of
`docs/reference/measures.md`.
"""
