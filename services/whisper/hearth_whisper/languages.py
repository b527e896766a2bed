"""Whisper's languages: its code for each, and the name in OpenAI's responses."""

from hearth_serving.errors import quoted

NAMES = {
    "af": "afrikaans", "am": "amharic", "ar": "arabic", "as": "assamese", "az": "azerbaijani",
    "ba": "bashkir", "be": "belarusian", "bg": "bulgarian", "bn": "bengali", "bo": "tibetan",
    "br": "breton", "bs": "bosnian", "ca": "catalan", "cs": "czech", "cy": "welsh",
    "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fo": "faroese",
    "fr": "french", "gl": "galician", "gu": "gujarati", "ha": "hausa", "haw": "hawaiian",
    "he": "hebrew", "hi": "hindi", "hr": "croatian", "ht": "haitian_creole", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "is": "icelandic", "it": "italian", "ja": "japanese",
    "jw": "javanese", "ka": "georgian", "kk": "kazakh", "km": "khmer", "kn": "kannada",
    "ko": "korean", "la": "latin", "lb": "luxembourgish", "ln": "lingala", "lo": "lao",
    "lt": "lithuanian", "lv": "latvian", "mg": "malagasy", "mi": "maori", "mk": "macedonian",
    "ml": "malayalam", "mn": "mongolian", "mr": "marathi", "ms": "malay", "mt": "maltese",
    "my": "myanmar", "ne": "nepali", "nl": "dutch", "nn": "nynorsk", "no": "norwegian",
    "oc": "occitan", "pa": "punjabi", "pl": "polish", "ps": "pashto", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sa": "sanskrit", "sd": "sindhi", "si": "sinhala",
    "sk": "slovak", "sl": "slovenian", "sn": "shona", "so": "somali", "sq": "albanian",
    "sr": "serbian", "su": "sundanese", "sv": "swedish", "sw": "swahili", "ta": "tamil",
    "te": "telugu", "tg": "tajik", "th": "thai", "tk": "turkmen", "tl": "tagalog",
    "tr": "turkish", "tt": "tatar", "uk": "ukrainian", "ur": "urdu", "uz": "uzbek",
    "vi": "vietnamese", "yi": "yiddish", "yo": "yoruba", "yue": "cantonese", "zh": "chinese",
}  # fmt: skip
"""Code -> name, in lower case."""

_CODES = {name: code for code, name in NAMES.items()}


def code_of(language: str) -> str | None:
    """Return Whisper's code for `de`, `de-AT` or `German`; None for an unknown language."""
    name = language.strip().lower().replace(" ", "_")
    if name in _CODES:
        return _CODES[name]
    code = name.replace("_", "-").partition("-")[0]
    # Codes that changed: Whisper kept the old one of Javanese; clients send those of the others.
    code = {"jv": "jw", "iw": "he", "nb": "no", "fil": "tl"}.get(code, code)
    return code if code in NAMES else None


def read_language(language: str) -> str:
    """Return Whisper's code; raises ValueError with a message for the client."""
    if code := code_of(language):
        return code
    raise ValueError(f"{quoted(language)} is not a known language; use a code such as en or de")


def name_of(code: str | None) -> str:
    """Return the name of a language; empty for audio without speech."""
    return NAMES.get(code or "", code or "").replace("_", " ")
