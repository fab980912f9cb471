"""The worker around the engine: Faust app and transport, journal, snapshots, publisher, exporter."""
