"""What messages say of an estimator beyond its measures."""
