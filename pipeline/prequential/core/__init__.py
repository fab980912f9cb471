"""The pure core: records in, messages out, snapshot out, snapshot in.

No clock, no I/O, no Kafka, no asyncio: time comes in with the records. The worker and `replay`
drive the very same objects.
"""
