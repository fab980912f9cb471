"""What detectors would have said on the past, and how right they would have been."""
