"""What messages of the output topics say: the newest ones, their course, and the status of each model."""
