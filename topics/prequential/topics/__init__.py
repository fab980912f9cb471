"""What crosses the wire: topics, messages, and the clients that carry them.

Programs of one's own use `producer.StreamProducer` with a `clients.KafkaConfig` to write instances,
predictions and labels, `decoding` and `messages` to read them, and `outputs` for what workers write. Errors
are those of `errors`.
"""
