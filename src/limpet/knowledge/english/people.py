"""Facts about people: the speaker and others."""

from __future__ import annotations

from limpet.knowledge.english import values, work
from limpet.knowledge.english.lexicon import (
    BELONGINGS,
    CONDITIONS,
    COUNTS,
    DEMONYMS,
    DIETS,
    HOBBIES,
    KIN,
    LANGUAGES,
    MEDICINES,
    PETS,
    any_of,
)
from limpet.knowledge.english.values import Rule, compile_pattern
from limpet.model.record import Layer

_BE = r"(?:am|is|are|im)"
DAY = (
    r"(?:(?:on |the )*(?:\d{1,2}(?:st|nd|rd|th)?(?: of)? [A-Z][a-z]{2,8}|(?:January|February|March|April|May|June|"
    r"July|"
    r"August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.? "
    r"\d{1,2}(?:st|nd|rd|th)?|"
    r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?)(?:,? \d{4})?)"
)
_GOING = (
    r"(?:visit|travel|fly|move to|move back|relocate|emigrate|climb|marry|get married|get engaged|"
    r"retire|adopt|go to|propose to|open (?:a|my|our)|start (?:a|my|our) (?:own )?(?:business|company|family|shop|"
    r"blog|podcast)|"
    r"run (?:a|the) (?:\w+ )?(?:marathon|half|race|10k|5k)|study (?:abroad|at|in)|buy (?:a|our|my)|sell (?:the|my|"
    r"our))"
)
_AGES = (
    r"(?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|"
    r"fifteen|sixteen|seventeen|"
    r"eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty)"
)
_ALLERGEN = r"((?:\w+[ -]){0,2}\w+?)"

RULES: tuple[Rule, ...] = (
    # Where they live
    Rule(
        "home",
        compile_pattern(
            r"(?:live|lives|living|reside|resides|residing) (?:here |now |alone |together |on (?:my|his|her|"
            r"our) own |"
            r"by (?:my|him|her)self |(?:since|for) (?:\w+ ){1,3}|with (?:my|his|her|our|a|some|two|"
            r"three) (?:\w+ ){1,3}?)?"
            r"in (?P<v>.+)"
        ),
        values.parse_place,
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "home",
        compile_pattern(rf"{_BE} (?:living|based|located|residing|now based|renting)(?: out)? (?:in|of) (?P<v>.+)"),
        values.parse_place,
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "home",
        compile_pattern(
            r"(?:moved|relocated|emigrated) (?:back |over |down |up |out |house )?(?:from [^,;]{2,40}? )?to (?P<v>.+)"
        ),
        values.parse_new_place,
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "home",
        compile_pattern(
            r"(?:moved into|live in|lives in) (?:a|an|our|my|the|his|her) (?:[\w-]+ ){0,2}"
            r"(?:place|flat|house|apartment|home|studio|cottage|village|town|suburb) (?:in|near|of|outside) (?P<v>.+)"
        ),
        values.parse_place,
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "home",
        compile_pattern(
            rf"(?:{_BE} )?(?:now )?(?:sharing|renting) (?:a|an) (?:[\w-]+ ){{0,2}}(?:place|flat|house|apartment|room|"
            rf"studio)(?: with (?:\w+ ){{1,3}}?)? in (?P<v>.+)"
        ),
        values.parse_place,
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "home", compile_pattern(r"(?:settled|settled down) in (?P<v>[A-Z].+)"), values.parse_named_place, exclusive=True
    ),
    # "I lived in Berlin" is over; "I have lived in Berlin for years" is not, see accepts().
    Rule("home", compile_pattern(r"lived in (?P<v>.+)"), values.parse_place, exclusive=True, salience=0.6),
    Rule("origin", compile_pattern(rf"{_BE} (?:originally )?from (?P<v>.+)"), values.parse_named_place, exclusive=True),
    Rule(
        "origin",
        compile_pattern(
            r"(?:grew up|come|comes|was born(?: and raised)?|were born|was raised) (?:in|from) (?P<v>[A-Z].+)"
        ),
        values.parse_named_place,
        exclusive=True,
    ),
    Rule(
        "origin",
        compile_pattern(
            r"grew up (?:on|in) an? [\w -]{3,30}? (?:outside(?: of)?|near|close to|in) (?P<v>(?-i:[A-Z]).+)"
        ),
        values.parse_named_place,
        exclusive=True,
    ),
    Rule(
        "nationality",
        compile_pattern(rf"{_BE} (?:half[- ])?(?P<v>{any_of(DEMONYMS)})(?=$|[,.!;]| and\b| but\b| by\b)"),
        exclusive=False,
    ),
    *work.RULES,
    # Age, family, health
    Rule(
        "age",
        compile_pattern(
            rf"{_BE} (?P<v>\d{{1,3}})(?: years old| yrs old| yo| y/o)?(?=$|[,.!;]| and\b| now\b| btw\b| lol\b| tbh\b|"
            rf" haha\b| not \d| "
            rf"years\b)(?!.*\b(?:minutes|hours|years (?:into|away|behind))\b)"
        ),
        exclusive=True,
    ),
    Rule(
        "age",
        compile_pattern(rf"{_BE} (?:only |just |nearly |almost |already )?(?P<v>{_AGES})(?:[ -]years?[ -]old)"),
        exclusive=True,
    ),
    Rule(
        "age",
        compile_pattern(rf"{_BE} (?:only |just |already )?(?P<v>(?!one\b){_AGES})(?=$|[,.!;]| (?:and|but)\b)"),
        exclusive=True,
        when="others",
    ),
    Rule("age", compile_pattern(rf"turned (?P<v>{_AGES})\b(?! (?:percent|degrees|years? into))"), exclusive=True),
    Rule("birthday", compile_pattern(rf"(?:was|were) born on (?P<v>{DAY}.*)"), values.parse_span, exclusive=True),
    Rule(
        "relationship",
        compile_pattern(
            rf"(?:{_BE}|got|get|have been|been) (?:happily |recently )?(?P<v>married|engaged|divorced|single|"
            rf"widowed|separated)\b(?! (?:in|with) (?:a|the|this) (?:project|debate|discussion)|"
            rf" to (?:the|my|his|her|this|it)\b)"
        ),
        exclusive=True,
    ),
    Rule(
        "family",
        compile_pattern(
            rf"(?:have|has|got) (?P<v>{COUNTS} (?:\w+ )?(?:{any_of(KIN)}))(?!\w|'|’|-| (?:named|called|to|in this)\b)"
        ),
        salience=0.7,
    ),
    Rule(
        "pet",
        compile_pattern(
            rf"(?:have|has|got|adopted|own|owns|bought) (?P<v>(?!some (?:\w+ )?(?:chicken|fish|rabbit|"
            rf"goat)\b){COUNTS} (?:(?!of\b)[\w-]+ "
            rf"){{0,2}}{any_of(PETS)})(?=$|[,.!;]| (?:and|last|this|from|who|that|for|two|three|in|yesterday|"
            rf"recently|with|when|because|but|now|ago|at|today)\b(?! this fight))"
        ),
        values.parse_bare_thing,
    ),
    Rule(
        "allergy",
        compile_pattern(rf"(?:{_BE} )?(?:\w+ly |super |very |quite |also )*al{{1,2}}ergic to (?P<v>.+)"),
        values.parse_allergen,
        salience=0.9,
        tags=("health",),
    ),
    Rule(
        "allergy",
        compile_pattern(
            rf"(?:have|has|got) (?:a |an )?(?:severe |bad |mild |serious )?(?P<v>(?!no\b|any\b){_ALLERGEN}) "
            rf"allerg(?:y|ies)\b"
        ),
        salience=0.9,
        tags=("health",),
    ),
    Rule(
        "allergy",
        compile_pattern(rf"{_BE} (?P<v>lactose|gluten|histamine|fructose)[ -]intolerant"),
        salience=0.9,
        tags=("health",),
    ),
    Rule(
        "diet",
        compile_pattern(
            rf"(?:{_BE}|been|went|go|turned|became|become|eat|eats) (?:a |strictly |strict |mostly |fully "
            rf")*(?P<v>{any_of(DIETS)})s?\b(?!['’])"
        ),
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "health",
        compile_pattern(
            rf"(?:have|has|suffer from|suffers from|live with) (?P<v>(?:mild |severe |chronic |bad |type \d "
            rf")*{any_of(CONDITIONS)})\b(?! (?:about|over)\b)"
        ),
        salience=0.8,
        tags=("health",),
    ),
    Rule(
        "health",
        compile_pattern(
            rf"{_BE} (?:a |an |legally |severely |partially )?(?P<v>diabetic|asthmatic|dyslexic|autistic|epileptic|"
            rf"colou?r[- ]?blind|pregnant|deaf|hard of hearing|visually impaired|bipolar)(?=$|[,.!;]| (?:and|but|"
            rf"so|in|since|with)\b)"
        ),
        salience=0.8,
        tags=("health",),
    ),
    Rule(
        "health",
        compile_pattern(r"(?:was|were|got|been|is|am) diagnosed with (?P<v>.+)"),
        values.parse_allergen,
        salience=0.8,
        tags=("health",),
    ),
    Rule(
        "health",
        compile_pattern(
            rf"(?:take|takes|{_BE} taking|{_BE} on|inject|injects) (?:\w+ )?(?P<v>{any_of(MEDICINES)})"
            rf"(?=$|[,.!;]| (?:and|but|so|for|since|because|daily|every|twice|now)\b)"
        ),
        salience=0.8,
        tags=("health",),
    ),
    Rule(
        "health",
        compile_pattern(
            r"(?:have had|has had|had|suffered) an? (?P<v>(?:mild |severe |minor |bad |massive |small )?(?:stroke|"
            r"heart attack|miscarriage|concussion|aneurysm|transplant|hip replacement|knee replacement|pacemaker|"
            r"(?:kidney|liver|heart|lung) transplant|slipped disc|hernia))\b"
        ),
        salience=0.8,
        tags=("health",),
    ),
    Rule("status", compile_pattern(r"(?P<v>passed away|died)\b"), exclusive=True, salience=0.8),
    # Daily life
    Rule("eats", compile_pattern(r"(?:eat|eats|can not eat) (?P<v>.+)"), values.parse_thing, when="denied"),
    Rule(
        "drinks",
        compile_pattern(r"(?P<v>drink|drinks)(?=$|[,.;!]| (?:so|at all|and|but|because)\b)"),
        when="denied",
        fixed="alcohol",
    ),
    Rule(
        "drinks",
        compile_pattern(
            r"(?P<v>alcohol|booze)(?=$|[,.;!]| (?:and|but|in|on|last|since|for|because|years|when|after|two|a)\b)"
        ),
        when="denied",
        fixed="alcohol",
    ),
    Rule(
        "drinks",
        compile_pattern(r"(?:drink|drinks|drinking|can not drink) (?P<v>.+)"),
        values.parse_thing,
        when="denied",
    ),
    Rule(
        "habit",
        compile_pattern(
            r"(?P<v>smoking|drinking|gambling|vaping|biting my nails)"
            r"(?=$|[,.;!]| (?:and|but|in|last|because|since|for|a|two|this|when|after|years|cold)\b| \w+ (?:years|"
            r"months|weeks|days) ago)"
        ),
        when="denied",
    ),
    Rule("habit", compile_pattern(r"(?P<v>smoke|smokes|vape|vapes)$"), when="now"),
    Rule(
        "hobby",
        compile_pattern(rf"(?:play|plays|playing|{_BE} playing) (?:the )?(?P<v>{any_of(HOBBIES)})\b"),
        exclusive=False,
    ),
    Rule(
        "hobby",
        compile_pattern(
            r"(?P<v>(?:run|runs|swim|swims|cycle|cycles|hike|hikes|climb|climbs|surf|surfs|paint|paints|knit|"
            r"knits|meditate|garden|sail|sails|do yoga|does yoga|go (?:running|hiking|swimming|climbing|"
            r"cycling|fishing|surfing)|goes (?:running|hiking|swimming)))\b.{0,20}\b(?:every|each|daily|twice|"
            r"once|on (?:weekends|mondays|tuesdays|wednesdays|thursdays|fridays|saturdays|sundays))\b"
        ),
    ),
    Rule("hobby", compile_pattern(r"(?:collect|collects) (?P<v>.+)"), values.parse_thing),
    Rule(
        "language",
        compile_pattern(
            rf"(?:speak|speaks) (?:fluent |some |a bit of |a little |native |good |both )*"
            rf"(?P<v>{any_of(LANGUAGES)}\b.*)"
        ),
        values.parse_languages,
    ),
    Rule(
        "learning",
        compile_pattern(
            rf"(?:{_BE} |been )?(?:learning|started learning|learn) (?P<v>(?!how\b|to\b|about\b|that\b|a lot\b|"
            rf"from\b|the\b|my\b|a\b|this\b|some\b|it\b|new\b)[\w+#.-]+(?: (?-i:[A-Z])\w+)?)\b.*"
        ),
        values.parse_thing,
    ),
    Rule(
        "learning",
        compile_pattern(
            rf"(?:{_BE} |been )?(?:learning|started learning|learn) (?:to play (?:the )?|the )"
            rf"(?P<v>{any_of(HOBBIES)})\b"
        ),
        exclusive=False,
    ),
    Rule("owns", compile_pattern(r"(?:own|owns) (?P<v>(?:a|an|two|three|the|my) .+)"), values.parse_bare_thing),
    Rule(
        "owns",
        compile_pattern(
            r"(?:drive|drives|ride|rides) (?P<v>(?:a|an) (?!(?:\w+ )?(?:bus|coach|truck|lorry|taxi|cab|train|tram|"
            r"van for|forklift|"
            r"ambulance|crane|digger|hard|long|lot)\b).+)"
        ),
        values.parse_bare_thing,
    ),
    Rule(
        "owns",
        compile_pattern(
            rf"(?:bought|just bought|got myself|purchased) (?:myself |ourselves )?(?P<v>(?:a|an|our|my) "
            rf"(?:[\w-]+ ){{0,3}}{any_of(BELONGINGS)}\b.*)"
        ),
        values.parse_bare_thing,
    ),
    Rule(
        "owns",
        compile_pattern(
            rf"(?:have |has )?(?:sold|gave away|got rid of) (?P<v>(?:the|my|our|his|her) "
            rf"(?:(?!of\b|for\b)[\w-]+ ){{0,2}}{any_of(BELONGINGS)})(?=$|[,.!;]| (?:and|but|last|this|in|because|so|"
            rf"ago|to|when|years?)\b)"
        ),
        values.parse_bare_thing,
        over=True,
    ),
    Rule(
        "visited",
        compile_pattern(r"(?:(?:went|been|travell?ed|flew) to|(?:got back|came back|returned) from) (?P<v>[A-Z].+)"),
        values.parse_destination,
        when="holds",
        layer=Layer.EPISODIC,
        salience=0.4,
    ),
    Rule(
        "visited",
        compile_pattern(r"visited (?P<v>[A-Z].+)"),
        values.parse_destination,
        when="holds",
        layer=Layer.EPISODIC,
        salience=0.4,
    ),
    # Plans
    Rule(
        "plan", compile_pattern(rf"(?P<v>{_GOING}\b.+)"), values.parse_deed, when="future", salience=0.6, confidence=0.8
    ),
    Rule(
        "plan",
        compile_pattern(
            rf"{_BE} (?P<v>(?:moving|relocating|flying|travelling|traveling|going) to (?-i:[A-Z]).*|"
            rf"visiting (?-i:[A-Z]).*\b(?:next|tomorrow|in|on|this|over)\b.*|(?:getting "
            rf"married|retiring|getting engaged)(?: (?:to|in|on|next|this) .*)?)"
        ),
        values.parse_intent,
        when="holds",
    ),
    Rule(
        "plan",
        compile_pattern(
            r"(?P<v>be (?:in (?!touch\b|contact\b|charge\b|trouble\b|time\b)|away|abroad|on (?:\w+ )?(?:holiday|"
            r"vacation|leave))"
            r".{0,60}?\b(?:from (?:the )?\d{1,2}(?:st|nd|rd|th)?|from \w+ (?:to|until|till)|until|till|next (?:week|"
            r"month|year|spring|summer|autumn|winter)|"
            r"all (?:of )?(?:january|february|march|april|may|june|july|august|september|october|november|december)|"
            r"for (?:a|an|one|two|three|four|five|six|\d+) (?:days|weeks?|months?|year))\b.*)"
        ),
        values.parse_deed,
        when="future",
        salience=0.6,
        confidence=0.75,
    ),
    Rule(
        "plan",
        compile_pattern(
            rf"{_BE} (?P<v>expecting (?:our|a|my|another) (?:\w+ )?(?:baby|child|girl|boy)\b.*|expecting twins\b.*)"
        ),
        values.parse_intent,
        when="holds",
    ),
    Rule(
        "plan",
        compile_pattern(
            rf"{_BE} planning (?:a|an|our|my|his|her) (?:\w+ )?"
            r"(?P<v>(?:trip|holiday|vacation|wedding|party|move) (?:to|in|for|from|around|this|next|on)\b"
            r"(?! (?:walmart|target|costco|ikea|starbucks)\b| the (?:\w+ )?(?:store|gym|mall|shop|supermarket)).+?)"
            r"(?: and (?:I|was|am|need|want|thinking|looking|trying)\b.*)?$"
        ),
        values.parse_intent,
        when="holds",
    ),
    Rule(
        "goal",
        compile_pattern(
            r"(?:want|wants) to (?P<v>(?:learn (?!more\b|about\b|how\b|if\b)|become\b|run a|lose (?:weight|\d|"
            r"some)|visit\b|travel\b|climb\b|write a|read \d|quit\b|retire\b|save (?:up|for|money|\d)|start a|"
            r"move to|buy a|open a|get fit|get in shape).+)"
        ),
        values.parse_deed,
        when="holds",
        salience=0.6,
        confidence=0.75,
    ),
    Rule(
        "goal",
        compile_pattern(rf"{_BE} (?:training|saving(?: up)?) for (?P<v>.+)"),
        values.parse_deed,
        when="holds",
        salience=0.6,
    ),
    Rule(
        "goal",
        compile_pattern(
            rf"{_BE} (?:hoping|trying|aiming) to (?P<v>(?:learn (?!more\b|about\b|how\b|if\b)|become\b|run a|"
            rf"lose (?:weight|\d)|visit\b|travel\b|quit\b|save (?:up|for|money|\d)|retire\b|move to|eat (?:less|"
            rf"more|better|health)).+)"
        ),
        values.parse_deed,
        when="holds",
        salience=0.6,
        confidence=0.75,
    ),
)
