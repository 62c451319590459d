"""What the host does: templates, pools, workers, supervision, files in and out, environments, egress."""
