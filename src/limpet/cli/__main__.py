import sys

from limpet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
