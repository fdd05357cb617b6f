"""`python -m tenon`: the `tenon` command."""

from tenon._command import main

if __name__ == "__main__":
    main()
