"""What in a message is the speaker's own word, and how it is said.

Not their word are code, quotations, fiction, questions, irony, tasks on a text; not learned is what they ask not to
have remembered. What is said may be denied, over, still to come, or merely possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from limpet.model.dataclass import dataclass
from limpet.search.analysis import Sentence, split_sentences

_NOT = r"(?:do not|don't|don’t|dont|never)"
# "Don't save it" may refer to a file: only "this", alone, refers to the message.
_KEEP = r"(?:(?:remember|memori[sz]e)(?: it)?|(?:remember|memori[sz]e|store|save|record|note|learn|keep|write down))"
_THIS = r"(?:this|that|these|any of (?:this|that|it))"
_ALL = re.compile(
    rf"(?:^|[\n.,;:!?(–—-]\s{{0,3}}|\b(?:please|pls|plz|but|and|so|just|also|should|you|u) ){_NOT} (?:ever |please )?"
    rf"{_KEEP}(?:(?<= it)| {_THIS})"
    r"(?=\s*$|\s{0,3}[.,;:!?)\n–—-]|,? (?:please|pls|plz|ok|okay|about me|for later|anywhere|though|either|because|but|"
    r"in (?:your |the )?memory|to (?:your |the )?memory|conversation|chat|message|part)\b)|"
    rf"\b{_NOT} (?:ever |please )?{_KEEP} (?:(?:anything|what|everything) (?:I|we) (?:say|said|tell|told|am|just|write|"
    r"wrote|have)\b|anything (?:about|from|of) (?:this|that|me|us)\b)|"
    r"\boff the record\b|\b(?:keep|keeping|stays?|remain|strictly|just) (?:(?:this|that|it) )?(?:strictly |just )?"
    r"between (?:you and me|us|ourselves)\b|"
    r"\bwithout (?:remembering|saving|storing|memori[sz]ing) (?:this|that|any of)\b",
    re.IGNORECASE,
)
# More ways to say so, each naming the message ("this", "what I say") or the memory: err towards silence.
_IT = (
    r"(?:this|that|it|any of (?:this|that|it|what follows)|what (?:I|follows)\b[^.!?]{0,30}|anything (?:from|in) this|"
    r"(?:this|that|the (?:last|next)) (?:message|part|bit|information|info|conversation|chat)(?: about me)?)"
)
_ENDS = r"(?=\s*$|\s{0,3}[.,;:!?)\n–—-]|,? (?:please|pls|either|anywhere|afterwards|though)\b)"
_STORE = r"(?:remember|memori[sz]e|store|save|record|keep|retain|log|hold on ?to|hang on ?to|learn(?: anything)? from)"
_STORING = rf"(?:{_STORE}|remembering|memori[sz]ing|storing|saving|recording|keeping|retaining|logging)"
_MEMORY = r"(?:your |the |long[- ]term )*(?:memory|memories|notes|records?)"
_MORE = re.compile(
    # I'd rather you didn't …, can you not …, I don't want you to …, you don't need to …, no need to …
    rf"\b(?:(?:rather|prefer(?: it)?(?: if)?|better if) you (?:didn['’]?t|did not|don['’]?t)|"
    rf"(?:can|could|would|will) you (?:please )?not|(?:don['’]?t|do not) (?:want|need) you to|"
    rf"you (?:(?:don['’]?t|do not) (?:need|have) to|needn['’]?t)|(?:there is |there['’]s )?no need to) "
    rf"{_STORE} {_IT}{_ENDS}|"
    rf"\b(?:don['’]?t|do not) want (?:any of )?(?:this|that) (?:to be )?"
    rf"(?:saved|stored|remembered|recorded|kept|logged)\b|"
    rf"\bnothing (?:I|we) (?:say|tell|write)\b[^.!?]{{0,20}} (?:should|must|may|is to) be "
    rf"(?:stored|saved|remembered|kept)\b|"
    rf"(?:^|[\n.,;:!?(–—-]\s{{0,3}}|\bplease ){_NOT} (?:ever |please )?(?:"
    rf"(?:retain|log|hold on ?to|hang on ?to|learn (?:anything )?from|remember) {_IT}{_ENDS}|"
    rf"(?:write|note) (?:this|that|it) down\b|make a (?:note|record) of (?:this|that|it)\b|"
    rf"commit (?:this|that|it) to memory\b|use (?:this|that) later\b|"
    rf"(?:add|put|save|store|write|keep) (?:this|that|it) (?:to|in|into) {_MEMORY}\b)|"
    rf"\b(?:keep|leave) (?:this|that|it) out of {_MEMORY}\b|\b(?:not|isn['’]?t) for (?:the record|your memory)\b|"
    rf"\b(?:ignore|skip) (?:this|that) for {_MEMORY}\b|\bmake no (?:note|record) of (?:this|that)\b|"
    rf"\b(?:erase|delete|remove|wipe) (?:this|that)(?: message)?(?: from {_MEMORY}| after(?:wards| reading))\b|"
    # not … store … this, unless somebody says it of themselves: "I don't remember this"
    rf"(?:(?<!\bI )(?<!\bwe )(?<!\bhe )(?<!\bshe )(?<!\bthey )(?<!\bit )(?<!\byou )(?<!\bdoes )(?<!\bdid )"
    rf"\b(?:do not|don['’]?t|never|not)|\byou (?:(?:should|must|may|did)(?:n['’]?t| not)|can['’]?t)|\brefrain from|"
    rf"\bnot allowed to) (?:please |ever |to |bother )?{_STORING} {_IT}"
    rf"(?: on (?:file|record)| anywhere| about me)?{_ENDS}|"
    r"\bbetween the two of us\b|\bif (?:this|that) (?:wasn['’]?t|weren['’]?t|isn['’]?t) (?:stored|saved|kept)\b|"
    r"\b(?:this|that|this message|what I['’]?[^.!?:]{1,30}|none of this) (?:should|must|is|ought)(?: to)?"
    r"(?: not|n['’]?t)?(?: to)? be (?:remembered|stored|saved|kept|recorded|forgotten)(?=\s*$|\s{0,3}[.,;:!?–—-])|"
    rf"\b(?:don['’]?t|do not) let (?:this|that|it) (?:end up|get|go) (?:in|into) {_MEMORY}\b|"
    r"\b(?:don['’]?t|do not|never) (?:file (?:this|that) away|keep a (?:record|note) of (?:this|that))\b|"
    r"\bfor your eyes only\b|\bno notes on this\b|\bwant (?:this|that) forgotten\b|"
    r"\bforget this (?:conversation|chat|message)\b|"
    r"\bforget (?:this|that) (?:afterwards|right away|immediately|again)\b|"
    r"\bforget (?:that )?I (?:ever )?said anything\b|"
    r"\bkeep (?:this|that) (?:to yourself|off the books|confidential|private)\b|"
    r"(?:^|[\n.!?]\s{0,3})(?:(?:said )?in (?:strict )?confidence|(?:this is )?strictly confidential|confidentially)"
    r"\s*[,:;–—-]",
    re.IGNORECASE,
)
_LEAD = (
    r"^\W*(?:(?:please|pls|plz|ok|okay|oh|actually|hey|hm+|and|so|but|just|no|nah|wait|sorry|well|can you|could you|"
    r"can u|would you|"
    r"you (?:can|should|may)|I want you to|I would like you to|I'd like you to),? )*"
)
_FORGET = re.compile(
    _LEAD + r"(?:forget|ignore|disregard|unlearn|erase|scratch|delete|strike)(?: about)? "
    r"(?:(?:that|what|everything|anything|all|whatever|the fact that|the part where)(?: that| of what| what)? (?:I|"
    r"we|my|our)\b|"
    r"(?:I|we) (?:ever |even )?(?:said|told|mentioned|wrote|asked)\b|my\b|"
    r"(?:this|that|it|the (?:last|previous) (?:message|part|thing|sentence|bit|one))(?=\s*$|[,.;:!?–—-]|,? (?:please|"
    r"pls)\b)).*",
    re.IGNORECASE | re.DOTALL,
)
# "Forget that", after what it refers to.
_BACK = re.compile(
    _LEAD + r"(?:forget|ignore|disregard|scratch|strike|delete|do not remember|don't remember|"
    r"dont remember)(?: about)? "
    r"(?:(?:this|that|it)(?=\s*$|[,.;:!?–—-]|,? (?:please|pls)\b)|(?:that )?I (?:ever |even )?(?:said|told|mentioned|"
    r"wrote) "
    r"(?:that|this|it|anything|so)\b|what I (?:just |have just )?(?:said|told|wrote)\b(?! about))",
    re.IGNORECASE,
)
_THAT = re.compile(_LEAD + r"\w+(?: about)? (?:(?:that|the fact that) )?", re.IGNORECASE)
_GOES_ON = re.compile(r"[,;:.!–—]\s*(?=(?:I|we|my|our|let's|use)\b)", re.IGNORECASE)


def is_opt_out(message: str) -> bool:
    """Return whether the speaker asks not to store the message."""
    return _ALL.search(message) is not None or _MORE.search(message) is not None


def is_retraction(sentence: str) -> bool:
    """Return whether it asks to forget what was said just before."""
    return _BACK.match(sentence) is not None


def is_forget_request(sentence: str) -> bool:
    return _FORGET.match(sentence) is not None


def find_forget_start(sentence: str) -> int:
    """Return where the words to forget start: after "forget that" or "do not remember this:"."""
    if is_forget_request(sentence) and (match := _THAT.match(sentence)):
        return match.end()
    kept = _ALL.search(sentence) or _MORE.search(sentence)
    colon = sentence.find(":", kept.end(), kept.end() + 30) if kept else -1
    return colon + 1


def find_remainder(sentence: str) -> int | None:
    """Return where a statement follows the request to forget: "forget my job, I quit"."""
    match = _GOES_ON.search(sentence)
    return None if match is None else match.end()


# Modality: negated, past, future, possible


_ADVERB = re.compile(
    r"(?:really|actually|currently|now|also|still|just|recently|absolutely|totally|honestly|finally|"
    r"already|even|both|all|"
    r"kinda|kind of|sort of|literally|definitely|truly|originally|basically|simply|officially|generally|strongly|"
    r"particularly|especially|"
    r"do(?:es)?(?= (?:work|live|speak|like|love|have|own|play|use|want|eat|drink|enjoy|hate|prefer)\b)|"
    r"sadly|mainly|secretly|genuinely|personally|too|sometimes|once)\s+",
    re.IGNORECASE,
)
_HABIT = re.compile(
    r"(always|usually|mostly|only|exclusively|often|normally|regularly|typically|primarily)\s+", re.IGNORECASE
)
_ASPECT_NOT = re.compile(
    r"(?:do not|does not|no longer|not|never|have not|has not|have never|has never)\s+(?:any ?more\s+)?",
    re.IGNORECASE,
)
_IRREALIS = re.compile(
    r"(?:would|could|might|may|should|must|can|shall|wish|hope|ought to|need to|had better)\b", re.IGNORECASE
)
_FUTURE = re.compile(
    r"(?:will|going to|(?:am|is|are) (?:going|planning|about|due|set) to|(?:plan|plans|intend|"
    r"intends) to)\s+(?!(?-i:[A-Z]))",
    re.IGNORECASE,
)
_ENDED = re.compile(
    r"(?:used to|stopped|quit|gave up|have stopped|has stopped|have quit|has quit|have given up)\s+", re.IGNORECASE
)
_PERFECT_ING = re.compile(r"(?:have|has) been (?=\w+ing\b)", re.IGNORECASE)
_PERFECT = re.compile(r"(?:have|has) (?=\w+(?:ed|en|t|wn|ught)\b|been\b|moved\b|become\b|grown\b)", re.IGNORECASE)
_WAS = re.compile(
    r"(?:was|were)\s+(?!born\b|diagnosed\b|laid\b|fired\b|promoted\b|raised\b|made\b|hired\b|adopted\b|let go\b)",
    re.IGNORECASE,
)
FOR_A_WHILE = re.compile(
    r"\b(?:until|till|temporarily|for (?:a|an|one|two|three|four|five|six|\d+|a few|a couple of|the|this|another) "
    r"(?:night|day|week|weekend|month|semester|term|summer|winter|spring|autumn|moment|time being)s?)\b",
    re.IGNORECASE,
)
_OVER = re.compile(r"\b(?:any ?more|any longer)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Aspect:
    """``core`` is the rest of the predicate: a verb in some form and what follows it."""

    core: str
    negated: bool = False
    ended: bool = False
    future: bool = False
    perfect: bool = False
    possible: bool = False
    habit: str = ""

    @property
    def holds(self) -> bool:
        return not (self.negated or self.ended)


def parse_aspect(predicate: str) -> Aspect:
    core = predicate
    negated = ended = future = perfect = possible = False
    habit = ""
    for _ in range(8):
        if match := _ADVERB.match(core):
            pass
        elif match := _HABIT.match(core):
            habit = match[1].lower()
        elif match := _ASPECT_NOT.match(core):
            if "no longer" in match.group().lower():
                ended = True
            else:
                negated = not negated
        elif match := re.match(r"can not (?=stand|bear|eat|drink|tolerate|stomach)", core, re.IGNORECASE):
            break
        elif match := _FUTURE.match(core):
            future = True
        elif match := _IRREALIS.match(core):
            possible = True
            break
        elif match := _ENDED.match(core):
            ended = True
        elif match := _PERFECT_ING.match(core) or _PERFECT.match(core):
            perfect = True
        elif match := _WAS.match(core):
            core, ended, match = f"is {core[match.end() :]}", True, None
            continue
        elif match := re.match(
            r"(am|is|are)\s+(not|no longer|now|currently|also|both|still|just|really|actually|originally)\s+",
            core,
            re.IGNORECASE,
        ):
            if match[2].lower() == "not":
                negated = not negated
            elif match[2].lower() == "no longer":
                ended = True
            core = f"{match[1]} {core[match.end() :]}"
            continue
        else:
            break
        core = core[match.end() :]
    if negated and _OVER.search(core):
        negated, ended = False, True
    return Aspect(_OVER.sub("", core).strip(), negated, ended, future, perfect, possible, habit)


# Text that the speaker does not assert: code, quotations, fiction, questions, irony, task material


MAX_SENTENCE = 600  # longer sentences do not state one fact; they are pasted

_FENCE = re.compile(r"^[ \t]{0,3}(```+|~~~+)", re.MULTILINE)
_QUOTED_LINE = re.compile(r"^[ \t]{0,3}>[^\n]*", re.MULTILINE)
# Code comments and crash output, pasted without a fence.
_CODE_LINE = re.compile(r"^[ \t]*(?:(?://|/\*|\*/|#!|<!--).*|at [\w$.<>]+\(.*|File \".*\", line \d+.*)$", re.MULTILINE)
_QUOTATION = re.compile(
    r"\"[^\"\n]{1,1500}\"|“[^”\n]{1,1500}”|«[^»\n]{1,1500}»|‘[^’\n]{8,1500}’(?!\w)|(?<!\w)'[^'\n]{8,300}'(?!\w)"
)
_OWN_VOICE = re.compile(r"\b(?:i|i'm|my|we|you|never|always|don't|do not|must|let's|he|she)\b", re.IGNORECASE)
_BLANK = "\x1f"  # neither letter nor space: no pattern matches across it

_QUESTION = re.compile(
    r"^\W*(?:(?:so|and|but|ok|well|hey|also),? )?(?:(?:do|does|did|is|are|am|was|were|can|could|"
    r"should|would|will|have|has|"
    r"shall|may|might) (?:i|you|we|they|he|she|it|my|your|the|this|that|there|anyone|someone)\b|"
    r"(?:where|what|when|who|why|"
    r"how|which|whose)(?:'s|'re|'d)? (?:do|does|did|is|are|am|was|were|can|could|should|would|will|"
    r"have|has|about|if)\b|"
    r"(?:any idea|do you|is it true)\b)",
    re.IGNORECASE,
)
# "As a vegan, what can I eat?" describes the speaker; "as a lawyer, what would you do?" assigns a role.
_AS_SOMEBODY = re.compile(r"\W*as an? ", re.IGNORECASE)
_ASKS_FOR_ONESELF = re.compile(r"^(?!.*\byou(?:r|rs|'re|'d)?\b).*\b(?:I|i|my|me)\b")
_TAIL_QUESTION = re.compile(
    r"[,;–—-]\s*(?=(?:so |and |but )?(?:can|could|do|does|did|is|are|what|where|which|how|any|would|"
    r"will|should|have|right|"
    r"ok|isn't|don't|when|who|why)\b)|"
    # Without a question mark, word order marks a question: "I'm vegan but can you …", "so what …".
    r"\s(?=(?:so|and|but) (?:(?:can|could|do|does|did|is|are|am|would|will|should|have|has|may|might) (?:i|you|we|they|"
    r"he|she|it|my|your|there|that|this|the|someone|anyone)|what|where|which|how|when|who|why)\b)",
    re.IGNORECASE,
)
_UNREAL = re.compile(
    r"^\W*(?:(?:so|and|but|ok|well|or|then),? )?(?:if|suppose|supposing|imagine|pretend|what if|let's "
    r"say|lets say|say i|as if|for example|for instance|"
    r"assuming|assume|hypothetically|picture this|in theory|maybe|perhaps|should i|were i|had i|as "
    r"though|in my dream)\b|"
    r"\b(?:i wish(?! to\b)|if only|as if|in my dreams|i dreamed|i dreamt|would have|could have|in an alternate|"
    r"hypothetically|"
    r"in another life|i said\b.*\bi (?:meant|mean)|once upon a time|for example,? if)\b",
    re.IGNORECASE,
)
_IRONY = re.compile(
    r"(?:^|\s)/s\b|\byeah,? right\b|\boh,? (?:great|sure|joy|wonderful)\b|\bsure,? because\b|🙄|"
    r"\bsarcasm\b|\bbecause i totally\b|"
    r"\bi just love (?:it when|how|when|sitting|waiting|being)\b|\bas if i\b|\bsaid no one ever\b|"
    r"\b(?:great|fantastic|wonderful|lovely|brilliant|perfect|yay|joy|hooray),? (?:another|one more|yet another|"
    r"more of)\b|"
    r"^(?:oh,? )?great,? (?:so )?now (?:i|we)(?:'m| am|'re| are)\b|\bjust what i (?:always )?(?:needed|wanted)\b|"
    r"\blucky me\b|\bliving the dream\b|\bwhat a surprise\b|"
    r"\b(?-i:I just LOVE|i just LOVE|I LOVE (?:it )?(?:when|how|being|mondays))\b|"
    r"\bnot\s*[!.]*$(?<=\bnot\.)",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"^\W*(?:not|just kidding|kidding|jk|joking|just joking|i'm kidding|psych)\b(?=\W|$)", re.IGNORECASE
)
_FICTION = re.compile(
    r"\b(?:in|of|from) (?:the|this|that|a|my) (?:\w+ )?(?:novel|story|book|film|movie|song|show|game|"
    r"play|episode|series|poem|"
    r"comic|anime|manga|campaign|dream|fanfic|screenplay)\b(?=.*\b(?:lives?|works?|hates?|loves?|says|"
    r"is|named|called)\b)|\bsong goes\b|\blyrics?\b|\bprotagonist\b|"
    r"\bthe (?:hero|heroine|villain|narrator|main character)\b|\bcharacter (?:who|named|called|is)\b|"
    r"\bmy character\b|"
    r"\b(?:old|famous) saying\b",
    re.IGNORECASE,
)
# After these, the rest of the message is task material or a mail by another person.
_MATERIAL = re.compile(
    r"^\W*(?:fwd?:|(?:customer|agent|client|interviewer|caller|patient|doctor|host|guest|buyer|seller): \S|"
    r"forwarded(?: message)?\b|begin forwarded|original message\b|from: \S|subject: \S|"
    r"on .{6,60} wrote:|"
    r"dear (?:sir|madam|mr|mrs|ms|dr|prof|team|all|hiring|customer|colleagues?|friends?|editor|committee)\b|"
    r"(?:riddle|puzzle|quiz|brain ?teaser|(?:math|maths|word) problem|exercise|homework|scenario|case study|prompt|"
    r"example|excerpt|quote|setting|plot|premise|backstory)\b[^:.!?]{0,20}:|"
    r"(?:(?:please|can you|could you|can u|pls),? )*(?:check|correct|improve|polish)\b.{0,30}\b(?:grammar|"
    r"spelling|wording|"
    r"english)\b)|"
    r"\b(?!I\b)[\w']+ (?:says|said|writes|wrote|states|stated|asks|asked|replied|answered): \S|"
    r"^(?:below|here|this|following)(?:'s| is| are) (?:the|an?|my|his|her|their|what) (?:\w+ ){0,3}?(?:letter|"
    r"e-?mail|mail|"
    r"message|text|logs?|chat|transcript|post|article|review|statement|contract|notice|output|stack ?trace|traceback)"
    r"(?: (?:from|of|by|he|she|they|that|I (?:got|received)|we (?:got|received))\b[^:]{0,80})?[:.]?$|"
    r"\b(?:need|want|write|make|give me|draft|suggest) an? (?:\w+ )?(?:slogan|tagline|caption|headline|motto|"
    r"jingle|toast)\b|"
    r"\b(?:email|e-mail|message|letter|text|ad|advert|post|review|bio|profile|note|comment|ticket|issue|page|"
    r"article|he|she|they)"
    r" (?:says?|said|reads?|goes|writes|wrote|states):|"
    r"^\W*(?:(?:please|can you|could you|now|ok|hey|hi),? )*(?:translate|proof-?read|rewrite|re-write|"
    r"rephrase|paraphrase|"
    r"summari[sz]e|role-?play|pretend|let'?s (?:play|pretend|role)|act as|act like|imagine|suppose|"
    r"correct (?:this|the|my)|"
    r"fix the (?:grammar|spelling|punctuation)|fix (?:my|this) (?:grammar|email|text)|edit (?:this|"
    r"the following)|convert (?:this|the following)|"
    r"analy[sz]e (?:this|the following)|classify|label|extract|parse (?:this|the following)|complete "
    r"(?:this|the) (?:story|sentence|text)|"
    r"continue (?:this|the) (?:story|text)|repeat after me|what is wrong with this (?:sentence|text))\b|"
    r"(?:^|[:.] ?)you are (?:now )?(?:a|an|my|the) (?!(?:life|star|gem|genius|legend|best|great|good|"
    r"angel|hero|saint|rock))\w+|"
    r"\b(?:in character|role-?play|the following (?:text|message|email|sentence|paragraph|review|conversation))\b|"
    r"^\W*(?:(?:please|can you|could you),? )*(?:write|draft|compose|create|generate|give me|tell me|"
    r"make up|invent)\b.*\b(?:story|poem|"
    r"dialogue|dialog|script|song|scene|bio|biography|character|fan ?fic|persona|joke|sample|example|"
    r"fictional|limerick|"
    r"haiku|obituary)\b",
    re.IGNORECASE,
)
# The start of a letter: the line before it may say who wrote it. The first line of all addresses the reader.
_SALUTATION = re.compile(r"dear (?:[\w.]+ ){0,3}\w+,?$", re.IGNORECASE)
# Output of a program, or a quoted text.
_SOURCE_SAYS = re.compile(
    r"^\W*(?:[^,;]{0,40}[,;] )?(?:(?:the|this|that|their|your|its|an?|my|some) (?:[\w-]+ ){0,3}?(?:docs?|"
    r"documentation|manual|"
    r"readme|spec|specification|article|tutorial|recipe|wiki|book|guide|rfc|linter|compiler|(?:error |log )?message|"
    r"warning|"
    r"banner|poster|sign|horoscope|quiz|blog|post|paper|leaflet|label|textbook|website|web ?page|changelog)"
    r"(?: (?:of|for|in|from|on) [\w .-]{2,40}?)? (?:says?|said|tells? (?:me|us|you)|claims?|states?|recommends?|warns?|"
    r"suggests?|reads?|mentions?|should say|must say)\b|according to (?:the|this|that|their|an?|some) )",
    re.IGNORECASE,
)
# After a story, only what the speaker says about themselves is not part of it.
_OF_ONESELF = re.compile(
    r"\W*(?:(?:and|but|so|btw|by the way|anyway|also),? )*(?:i|i'm|i've|my|we|our|please)\b", re.IGNORECASE
)
_TASK = re.compile(
    r"^\W*(?:(?:please|can you|could you),? )*(?:write|draft|compose|generate|explain|tell|describe|"
    r"show|list|find|say|read)\b",
    re.IGNORECASE,
)


_LASTS = re.compile(r"\b(?:from now on|going forward|in (?:the )?future)\b", re.IGNORECASE)


def mask_quotations(text: str) -> str:
    """Return the text with code, quoted lines and quoted speech blanked out, at the same length."""
    plain = text.replace("’", "'").replace("‛", "'").replace("`", "`")
    plain = _blank_code(plain)
    plain = _CODE_LINE.sub(lambda found: _BLANK * len(found.group()), plain)
    plain = _QUOTED_LINE.sub(lambda found: _BLANK * len(found.group()), plain)
    return _QUOTATION.sub(lambda found: _blank_speech(found.group()), plain)


def _blank_code(text: str) -> str:
    kept, at, fence = [], 0, ""
    for mark in _FENCE.finditer(text):
        if not fence:
            kept.append(text[at : mark.start()])
            at, fence = mark.start(), mark[1]
        elif mark[1].startswith(fence):
            kept.append(_blank_lines(text[at : mark.end()]))
            at, fence = mark.end(), ""
    rest = text[at:]
    kept.append(_blank_lines(rest) if fence else rest)
    return "".join(kept)


def _blank_lines(text: str) -> str:
    return "\n".join(_BLANK * len(line) for line in text.split("\n"))


def _blank_speech(quotation: str) -> str:
    """Keep the words of a title, and blank quoted speech."""
    return _BLANK * len(quotation) if _OWN_VOICE.search(quotation) and quotation.count(" ") else quotation


def find_statements(text: str, *, unheard_too: bool = False) -> Iterator[tuple[Sentence, bool]]:
    """The sentences the speaker asserts, each with whether it opens the message. Material for a task ends it.

    ``unheard_too``: also what the speaker asks not to have remembered, for whoever has to find all that says it.
    """
    if is_opt_out(text) and not unheard_too:
        return
    found = [sentence for sentence in split_sentences(mask_quotations(text)) if len(sentence.text) <= MAX_SENTENCE]
    invented = False
    for at, sentence in enumerate(found):
        if _MATERIAL.search(sentence.text) or (at and _SALUTATION.match(sentence.text)):
            return
        if _FICTION.search(sentence.text):
            invented = True
            continue
        following = found[at + 1].text if at + 1 < len(found) else ""
        taken_back = _TAKEN_BACK.match(following) or (is_retraction(following) and not unheard_too)
        if taken_back and len(following) < 200:
            continue
        told = (
            _cut_sentence(sentence, find_forget_start(sentence.text)) if unheard_too else _drop_forget_request(sentence)
        )
        kept = _extract_own(told.text) if told else None
        if told and kept and not (invented and not _OF_ONESELF.match(kept)):
            yield Sentence(told.start, kept, told.bullet), at <= 1


def _drop_forget_request(sentence: Sentence) -> Sentence | None:
    """Return the rest of a request to forget: "forget my old job, I work at Shell"."""
    if not is_forget_request(sentence.text):
        return sentence
    further = find_remainder(sentence.text)
    return None if further is None else _cut_sentence(sentence, further)


def _cut_sentence(sentence: Sentence, at: int) -> Sentence:
    rest = sentence.text[at:].lstrip()
    return sentence._replace(start=sentence.start + len(sentence.text) - len(rest), text=rest) if rest else sentence


def extract_assertion(sentence: str) -> str | None:
    """Return the sentence, the part of it that is not a question, or nothing."""
    return None if _FICTION.search(sentence) else _extract_own(sentence)


def _extract_own(sentence: str) -> str | None:
    if (
        _IRONY.search(sentence)
        or _UNREAL.search(sentence)
        or _SOURCE_SAYS.match(sentence)
        or (_TASK.match(sentence) and not _LASTS.search(sentence))
    ):
        return None
    if sentence.rstrip("\"')*_ ").endswith("?"):
        tails = list(_TAIL_QUESTION.finditer(sentence))
        if not tails or _QUESTION.match(sentence):
            return None
        if _AS_SOMEBODY.match(sentence) and not _ASKS_FOR_ONESELF.search(sentence):
            return None
        asked = (tail for tail in tails if _QUESTION.match(sentence[tail.end() :]))
        return sentence[: next(asked, tails[-1]).start()].strip() or None
    return None if _QUESTION.match(sentence) else sentence
