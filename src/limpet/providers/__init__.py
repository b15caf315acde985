"""Embedders, language models and rerankers: small interfaces, implementations and fakes."""
