"""What a workload needs."""
