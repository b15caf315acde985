from limpet.cli.main import main

raise SystemExit(main())
