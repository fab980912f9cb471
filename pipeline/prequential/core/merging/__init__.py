"""Streams whose instances lie in all partitions: what each of these knows, added up."""
