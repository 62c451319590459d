"""groundbox inside other frameworks: one file for each, which imports that framework and which nothing imports."""
