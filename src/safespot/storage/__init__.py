"""What survives a crash: the journal of episodes, the durable learner on top of it, the audit trail as a table."""
