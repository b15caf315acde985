"""Characters that nobody sees and letters that look like others: to a model such text says more than to us."""

from __future__ import annotations

import re
import unicodedata

# Controls, direction marks, fillers, interlinear notes, selectors and tags: nobody sees them, and models read them.
INVISIBLE = (
    r"\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ENGLAND, _SCOTLAND, _WALES = (
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in code) + "\U000e007f"
    for code in ("gbeng", "gbsct", "gbwls")
)
# What is part of writing: flags of tags, one selector behind a symbol, and a joiner between letters or symbols of
# scripts that need it. Between ASCII letters a joiner only splits a word.
_VISIBLE = rf"[^\x00-\x7f{INVISIBLE}]"
_JOINER = rf"(?<={_VISIBLE})\ufe0f?[\u200c\u200d](?={_VISIBLE})"
_SELECTOR = rf"(?<=[#*0-9])\ufe0f(?=\u20e3)|(?<={_VISIBLE})[\ufe0e\ufe0f](?![\ufe00-\ufe0f])"
_PIECES = re.compile(rf"({_ENGLAND}|{_SCOTLAND}|{_WALES}|{_JOINER}|{_SELECTOR})|[{INVISIBLE}]")
_NOT_WORD = re.compile(r"[\W_]+")

ROLES = "system|developer|user|human|assistant|model|tool|function|chatbot|bot|ai|ipython"
_ROLE_WORDS = frozenset(
    "prompt prompts message messages instruction instructions note notice turn role override update new real says"
    " result results output response".split()
)
# Letters of other alphabets, small capitals and digits that pass for a Latin letter, as casefold leaves them: Cherokee
# in upper case, the others in lower case. i and l are the same.
_LETTERS = str.maketrans(
    {
        **dict(zip("абвԁеһіјкӏмнпорԛгѕтцухԝѵьєҽүґ", "abbdehijkimhnopqrstuyxwvbeeyr", strict=True)),
        **dict(zip("αβγδεζηικλμνορστυχωϲϳ", "abydeznikimvopotuxwcj", strict=True)),
        **dict(zip("աեհոսօցզյք", "wehnuogqjp", strict=True)),
        **dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijkimnoprstuvwyz", strict=True)),
        **dict(zip("ɑɡıƨʂɩʋꞅƅɛ", "agissiusbe", strict=True)),
        **dict(zip("ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ", "bpdtgkjczfmnisrvhwxyaeiou", strict=True)),
        **dict(zip("ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏃᏌᏒᏔᏚᏟᏢᏙᏞᏦᏧᏮᏴ", "drtiyajewmhygzurwscpvikdgb", strict=True)),
        **dict(zip("ⲁⲃⲉⲏⲓⲕⲙⲛⲟⲡⲣⲥⲧⲩⲭ", "abehikmnonpctyx", strict=True)),
        **dict(zip("013457$@|!l", "oieastsaiii", strict=True)),
    }
)


def drop_invisible(text: str) -> str:
    """Remove what nobody sees. A blank Braille cell becomes a space."""
    return _PIECES.sub(lambda found: found[1] or (" " if found[0] == "\u2800" else ""), text)


def claims_role(text: str) -> bool:
    """Whether text before a colon reads like a role of the conversation: "system", "new ЅYSTEM prompt", "**b0t**"."""
    words = _fold(text).split()
    return any(word in _FOLDED_ROLES for word in words) and all(
        word in _FOLDED_ROLES or word in _FOLDED_WORDS for word in words
    )


def contains_role(name: str) -> bool:
    """Whether a word of the name looks like a role."""
    return not _FOLDED_ROLES.isdisjoint(_fold(name).split())


def _fold(text: str) -> str:
    """Reduce to the Latin letters that it looks like, words apart by one space."""
    if not text.isascii():
        compatible = unicodedata.normalize("NFKC", drop_invisible(text)).casefold()
        letters = unicodedata.normalize("NFKD", compatible.translate(_LETTERS))
        text = "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
    return _NOT_WORD.sub(" ", text.lower().translate(_LETTERS)).replace("rn", "m")


_FOLDED_ROLES = frozenset(map(_fold, ROLES.split("|")))
_FOLDED_WORDS = frozenset(map(_fold, _ROLE_WORDS))
