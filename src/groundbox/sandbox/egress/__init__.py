"""The one way out of a sandbox: an HTTP proxy of the host's, on the guest's own loopback."""
