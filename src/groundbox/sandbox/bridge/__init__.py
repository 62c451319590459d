"""The tool bridge: code in a sandbox calls functions of the host that were granted to it."""
