"""groundbox for pydantic-ai (groundbox[agent]): a model for our loop, and a capability and a toolset for its agents."""
