"""Everything that talks to Kafka or serves HTTP: clients, the worker, ingest and notifications."""
