"""Whether memory says what holds: stories, facts, states, messages and dialogues, and how they are scored."""
