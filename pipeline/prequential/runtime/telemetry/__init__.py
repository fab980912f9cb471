"""Metrics and events of a process, pushed to OpenTelemetry."""
