"""The nouns of Limpet: frozen values that check themselves, with no I/O and no clock."""
