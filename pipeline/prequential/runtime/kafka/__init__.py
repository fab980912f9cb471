"""What `worker` and `ingest` share: reading, transactions, the Faust transport, the process."""
