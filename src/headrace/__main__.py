"""``python -m headrace``: the same as the ``headrace`` command."""

from headrace.cli.main import app

if __name__ == "__main__":
    try:
        app(prog_name="headrace")
    finally:
        # Python remembers a KeyboardInterrupt that came up while it ran a text, as it does for each dataclass that is
        # imported, and then ends by SIGINT, whatever the exit code is, though the interrupt was caught. With the next
        # text it forgets that.
        eval("0")
