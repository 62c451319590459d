"""`python -m groundbox`, the same as `groundbox`."""

from groundbox.cli.entry import main

if __name__ == "__main__":
    main()
