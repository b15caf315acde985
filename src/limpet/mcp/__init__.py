"""Other people's protocols and frameworks, spoken in the words of this package."""
