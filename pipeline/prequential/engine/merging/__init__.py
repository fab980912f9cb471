"""Streams whose instances lie in all partitions: adds up the results of the partitions."""
