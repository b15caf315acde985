"""The nouns of Holdfast: frozen values that check themselves, with no I/O and no clock."""
