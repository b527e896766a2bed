def lexicon(language: str) -> str:
    return language
