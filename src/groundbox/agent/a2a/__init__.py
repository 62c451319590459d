"""A grounded agent that other agents ask over Agent2Agent (A2A); needs groundbox[a2a], which nothing else imports."""
