"""`prequential archive` as a process that others watch: its metrics, and its answers to probes."""
