from holdfast.cli.main import main

raise SystemExit(main())
