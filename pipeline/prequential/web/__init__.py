"""HTTP: the server of metrics, probes and pages, with its access and its series."""
