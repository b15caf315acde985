"""Masking secrets before text reaches long-term memory.

A table of formats with their beginnings, and what people write before a password. Every pattern is bounded and begins
with something rare, so that the time grows with the text and no faster.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from limpet.model.dataclass import dataclass


class Redaction(NamedTuple):
    """``found`` names the kinds of secret in the order they stood, one entry for each."""

    text: str
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """``signs``: one of them stands in every secret of the kind, so that most texts need no closer look.

    Only the group ``v`` is masked, where the pattern has one.
    """

    kind: str
    pattern: re.Pattern[str]
    signs: tuple[str, ...]
    is_one: Callable[[str], bool] = lambda _: True


_A = r"(?<![A-Za-z0-9_-])"  # not inside a longer word
_Z = r"(?![A-Za-z0-9_-])"
_ALNUM = r"(?<![A-Za-z0-9])"


def _secret_pattern(
    kind: str, pattern: str, *signs: str, is_one: Callable[[str], bool] = lambda _: True, flags: int = 0
) -> SecretPattern:
    return SecretPattern(kind, re.compile(pattern, flags), signs, is_one)


def _looks_random(text: str) -> bool:
    """Letters and digits mixed as nobody types words. Hex alone is a digest, an id or a commit."""
    if len(text) < 16 or re.fullmatch(r"[0-9a-fA-F-]+|[a-z-]+|[A-Z-]+|[A-Za-z]+[-_][A-Za-z_-]+|\d+", text):
        return False
    kinds = sum(bool(re.search(kind, text)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    counts = Counter(text)
    entropy = -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
    return kinds >= 2 and entropy >= 3.3


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_card(text: str) -> bool:
    """Luhn's sum, and the beginnings and lengths that card issuers use."""
    digits = [int(digit) for digit in text if digit.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) < 3:
        return False
    start = "".join(map(str, digits[:4]))
    lengths = {"4": {13, 16, 19}, "5": {16}, "2": {16}, "3": {14, 15}, "6": {16, 17, 18, 19}}
    issued = {"4": "4", "5": "12345", "2": "234567", "3": "04678", "6": "0245"}
    if (
        start[0] not in lengths
        or len(digits) not in lengths[start[0]]
        or (start[0] != "4" and start[1] not in issued[start[0]])
    ):
        return False
    doubled = (digit if at % 2 == 0 else sum(divmod(2 * digit, 10)) for at, digit in enumerate(reversed(digits)))
    return sum(doubled) % 10 == 0


SECRET_PATTERNS: tuple[SecretPattern, ...] = (
    _secret_pattern(
        "private key",
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: "
        r"BLOCK)?-----(?:(?!-----)[\s\S]){0,20000}(?:-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: "
        r"BLOCK)?-----)?",
        "PRIVATE KEY",
    ),
    _secret_pattern("anthropic key", rf"{_A}sk-ant-[A-Za-z0-9_-]{{20,200}}", "sk-ant-"),
    _secret_pattern("openrouter key", rf"{_A}sk-or-(?:v1-)?[A-Za-z0-9]{{32,100}}", "sk-or-"),
    _secret_pattern(
        "openai key",
        rf"{_A}sk-(?:proj-|svcacct-|admin-|None-)[A-Za-z0-9_-]{{20,200}}",
        "sk-proj-",
        "sk-svcacct-",
        "sk-admin-",
        "sk-None-",
    ),
    _secret_pattern("openai key", rf"{_A}sk-[A-Za-z0-9]{{20,100}}{_Z}", "sk-", is_one=_has_digit),
    _secret_pattern("stripe key", rf"{_A}(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{{16,120}}", "_live_", "_test_"),
    _secret_pattern("stripe webhook secret", rf"{_A}whsec_[A-Za-z0-9+/=]{{24,100}}", "whsec_"),
    _secret_pattern(
        "aws key id", rf"{_ALNUM}(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}(?![A-Za-z0-9])", "AKIA", "ASIA", "ABIA", "ACCA"
    ),
    _secret_pattern("github token", rf"{_A}gh[pousr]_[A-Za-z0-9]{{30,255}}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _secret_pattern("github token", rf"{_A}github_pat_[A-Za-z0-9_]{{30,255}}", "github_pat_"),
    _secret_pattern("gitlab token", rf"{_A}gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_-]{{18,300}}", "gl"),
    _secret_pattern("slack token", rf"{_A}xox[abcdeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{{10,250}}", "xox"),
    _secret_pattern("slack token", rf"{_A}xapp-\d-[A-Za-z0-9-]{{20,250}}", "xapp-"),
    _secret_pattern(
        "slack webhook", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{20,200}", "hooks.slack.com"
    ),
    _secret_pattern(
        "discord webhook",
        r"https://(?:\w{1,20}\.)?discord(?:app)?\.com/api/webhooks/\d{5,25}/[\w-]{20,120}",
        "/api/webhooks/",
    ),
    _secret_pattern(
        "discord token", rf"{_A}[MNO][A-Za-z0-9_-]{{23,27}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,45}}{_Z}", "."
    ),
    _secret_pattern("google key", rf"{_A}AIza[A-Za-z0-9_-]{{35}}{_Z}", "AIza"),
    _secret_pattern("google oauth secret", rf"{_A}GOCSPX-[A-Za-z0-9_-]{{24,40}}", "GOCSPX-"),
    _secret_pattern("google oauth token", rf"{_A}ya29\.[A-Za-z0-9_-]{{20,500}}", "ya29."),
    _secret_pattern("npm token", rf"{_A}npm_[A-Za-z0-9]{{30,60}}{_Z}", "npm_"),
    _secret_pattern("pypi token", rf"{_A}pypi-[A-Za-z0-9_-]{{40,300}}", "pypi-"),
    _secret_pattern("limpet key", rf"{_A}lim_[A-Za-z0-9_-]{{43}}{_Z}", "lim_"),
    _secret_pattern("hugging face token", rf"{_A}(?:hf|api_org)_[A-Za-z0-9]{{30,60}}{_Z}", "hf_", "api_org_"),
    _secret_pattern("sendgrid key", rf"{_A}SG\.[A-Za-z0-9_-]{{16,32}}\.[A-Za-z0-9_-]{{30,64}}", "SG."),
    _secret_pattern("twilio key", rf"{_ALNUM}SK[0-9a-f]{{32}}(?![A-Za-z0-9])", "SK"),
    _secret_pattern("mailgun key", rf"{_A}key-[0-9a-f]{{32}}{_Z}", "key-"),
    _secret_pattern("telegram bot token", rf"(?<![\w:])(?:bot)?\d{{8,10}}:AA[A-Za-z0-9_-]{{32,34}}{_Z}", ":AA"),
    _secret_pattern("digitalocean token", rf"{_A}do[opr]_v1_[0-9a-f]{{64}}", "_v1_"),
    _secret_pattern("databricks token", rf"{_A}dapi[0-9a-f]{{32}}(?:-\d)?{_Z}", "dapi"),
    _secret_pattern("shopify token", rf"{_A}shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}", "shp"),
    _secret_pattern(
        "square token", rf"{_A}(?:EAAA[A-Za-z0-9_-]{{56,70}}|sq0(?:atp|csp)-[A-Za-z0-9_-]{{22,50}})", "EAAA", "sq0"
    ),
    _secret_pattern("linear key", rf"{_A}lin_(?:api|oauth)_[A-Za-z0-9]{{32,60}}", "lin_"),
    _secret_pattern(
        "notion token", rf"{_A}(?:secret_[A-Za-z0-9]{{43}}|ntn_[A-Za-z0-9]{{40,60}}){_Z}", "secret_", "ntn_"
    ),
    _secret_pattern("docker token", rf"{_A}dckr_pat_[A-Za-z0-9_-]{{20,60}}", "dckr_pat_"),
    _secret_pattern("vault token", rf"{_A}hv[sbr]\.[A-Za-z0-9_-]{{20,200}}", "hvs.", "hvb.", "hvr."),
    _secret_pattern("groq key", rf"{_A}gsk_[A-Za-z0-9]{{40,80}}", "gsk_"),
    _secret_pattern("replicate token", rf"{_A}r8_[A-Za-z0-9]{{30,60}}", "r8_"),
    _secret_pattern("xai key", rf"{_A}xai-[A-Za-z0-9]{{40,120}}", "xai-"),
    _secret_pattern("perplexity key", rf"{_A}pplx-[A-Za-z0-9]{{40,80}}", "pplx-"),
    _secret_pattern("new relic key", rf"{_A}NRAK-[A-Z0-9]{{27}}{_Z}", "NRAK-"),
    _secret_pattern("grafana token", rf"{_A}gl(?:sa|c)_[A-Za-z0-9+/=_]{{30,400}}", "glsa_", "glc_"),
    _secret_pattern("age key", rf"{_A}AGE-SECRET-KEY-1[A-Z0-9]{{50,70}}", "AGE-SECRET-KEY-"),
    _secret_pattern("azure storage key", r"(?<=AccountKey=)[A-Za-z0-9+/]{60,100}={0,2}", "AccountKey="),
    _secret_pattern("sas signature", r"(?<=[?&]sig=)[A-Za-z0-9%+/=]{30,120}", "sig="),
    _secret_pattern(
        "jwt", rf"{_A}eyJ[A-Za-z0-9_-]{{8,2000}}\.eyJ[A-Za-z0-9_-]{{8,4000}}\.[A-Za-z0-9_-]{{0,1000}}", "eyJ"
    ),
    _secret_pattern(
        "password in a url",
        r"(?<=://)[^\s:/@'\"<>\[\]]{0,100}:(?!//)(?!\[secret)(?P<v>[^\s/@'\"<>]{1,200})(?=@[\w.\[-])",
        "://",
    ),
    _secret_pattern(
        "bearer token",
        r"(?i:\b(?:bearer|basic|token)(?=\s+\S{16}))\s+(?!\[secret)(?P<v>[A-Za-z0-9._~+/-]{16,2000}={0,2})",
        "earer",
        "EARER",
        "asic",
        "oken",
        is_one=_looks_random,
    ),
    _secret_pattern("card number", r"(?<![\w.,+-])(?:\d[ -]?){12,18}\d(?![\w-]|[.,]\d)", "", is_one=_is_card),
)

_NAMES = (
    r"(?:[A-Za-z0-9]{1,20}[_.-]){0,4}(?:api[_-]?key|apikey|secret[_-]?(?:access[_-]?)?key|secret|"
    r"access[_-]?token|auth[_-]?token|"
    r"refresh[_-]?token|client[_-]?secret|private[_-]?key|signing[_-]?key|encryption[_-]?key|"
    r"account[_-]?key|token|credentials?)(?:[_-][A-Za-z0-9]{1,10})?"
)
_ASSIGNED = re.compile(
    rf"(?i)(?<![A-Za-z0-9]){_NAMES}[\"']?\s{{0,3}}(?::=|=>|=|:|"
    rf"\bis\b)\s{{0,3}}[\"'`]?(?P<v>[A-Za-z0-9+/_.=~!@#$%^&*-]{{12,300}})"
)
_NAMES_OF_WORDS = (
    r"(?:[A-Za-z0-9]{1,20}[_.-]){0,4}(?:password|passwd|passphrase|passcode|pwd|passwort|kennwort|contraseña)"
)
_PASSWORD = re.compile(
    rf"(?i)(?<![A-Za-z0-9]){_NAMES_OF_WORDS}(?:[_-][A-Za-z0-9]{{1,10}})?[\"']?(?:\s{{0,3}}(?:=>|:=|=|"
    rf":)\s{{0,3}}|\s{{1,3}}(?:is|was|ist)(?:\s{{0,3}}:)?\s{{1,3}}(?:now |set to |still "
    rf")?)(?P<q>[\"'`“]?)(?P<v>[^\s\"'`”,;<>]{{4,200}})"
)
_PIN = re.compile(
    r"(?i)\b(?:my|the|our|card|phone|sim|bank)\s+(?:pin|pin code|pin number|passcode)\s+(?:is|=|:)\s*(?P<v>\d{4,8})\b"
)
_FLAG = re.compile(r"(?:(?<=\s)|^)--(?:password|token|api-key|secret)(?:=|\s+)(?P<v>[^\s\"'<>$\[{(-][^\s\"'<>]{5,200})")
# What stands where a secret would: to be filled in, read from elsewhere, or masked already.
_PLACEHOLDER = re.compile(
    r"(?i)(?:your|change-?me|example|placeholder|dummy|x{3,}|\*{3,}|\.{3}|<|\$|\{\{|%\(|os\.|"
    r"process\.|env[.\[(]|self\.|config[.\[]|"
    r"settings[.\[]|request[.\[]|args[.\[]|params[.\[]|input\(|getpass|keyring|\[secret|redacted|\w{1,40}[(\[])"
)
# A sentence goes on: "the password is wrong".
_PLAIN = frozenset(
    """none null true false undefined required optional incorrect invalid wrong expired missing empty reset not too
    still never being stored hashed encrypted protected safe secure weak strong long short correct valid field
    string text
    str int bytes bool hidden forgotten shared unknown blank default used case about what that this here there also only
    and needed set unset same different saved sent visible shown gone back broken leaked compromised rotated updated
    changed generated secret vault password token user vergessen falsch very always just now correctly it's mandatory
    stronger weaker longer shorter complex simple good bad easy hard the an for with from patience""".split()
)


def redact(text: str) -> Redaction:
    """The text with every secret replaced by what kind it was. Redacting twice changes nothing more."""
    found: list[tuple[int, int, str]] = []
    for form in SECRET_PATTERNS:
        if any(sign in text for sign in form.signs):
            part = "v" if form.pattern.groups else 0
            matches = form.pattern.finditer(text)
            found += [(*match.span(part), form.kind) for match in matches if form.is_one(match.group(part))]
    found += _find_named_secrets(text)
    if not found:
        return Redaction(text, ())
    pieces, kinds, at = [], [], 0
    for start, end, kind in sorted(found, key=lambda span: (span[0], -span[1])):
        if end <= at:
            continue
        pieces += [text[at : max(at, start)], f"[secret: {kind}]" if start >= at else ""]
        kinds += [kind] if start >= at else []
        at = end
    return Redaction("".join((*pieces, text[at:])), tuple(kinds))


def _find_named_secrets(text: str) -> list[tuple[int, int, str]]:
    """Secrets without a form of their own, told by the name before them."""
    found = []
    for match in _ASSIGNED.finditer(text):
        value = match["v"].rstrip(".,;")
        if (_looks_random(value) and not _PLACEHOLDER.match(value)) or re.fullmatch(r"[0-9a-fA-F]{32,128}", value):
            found.append((match.start("v"), match.start("v") + len(value), "key or token"))
    for match in _PASSWORD.finditer(text):
        value = match["v"].rstrip(".,;:!?)")
        if _is_password(
            value, quoted=bool(match["q"]), spelled=" " in match.group()[: match.start("v") - match.start()].strip()
        ):
            found.append((match.start("v"), match.start("v") + len(value), "password"))
    found += [(match.start("v"), match.end("v"), "password") for match in _PIN.finditer(text)]
    found += [
        (match.start("v"), match.end("v"), "password")
        for match in _FLAG.finditer(text)
        if not _PLACEHOLDER.match(match["v"]) and (_has_digit(match["v"]) or _looks_random(match["v"]))
    ]
    return found


def _is_password(value: str, *, quoted: bool, spelled: bool) -> bool:
    """After "is" a plain word more likely ends a sentence; a digit, a capital or a sign inside makes it a password."""
    if len(value) < 4 or _PLACEHOLDER.match(value) or value.endswith(("(", "()")):
        return False
    odd = re.search(r"\d|[^\w-]|[a-z][A-Z]|_", value[:100]) is not None
    return quoted or odd or (not spelled and value.casefold() not in _PLAIN)
