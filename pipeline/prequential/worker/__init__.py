"""The worker around the core: Faust app and transport, journal, snapshots, publisher, exporter."""
