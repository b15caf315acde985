"""Facts about people: the one who speaks, and those they speak of."""

from __future__ import annotations

from holdfast.domain.record import Layer
from holdfast.learn.rules import values
from holdfast.learn.rules.lexicon import (
    BELONGINGS,
    CONDITIONS,
    COUNTS,
    DEMONYMS,
    DIETS,
    HOBBIES,
    KIN,
    LANGUAGES,
    OCCUPATIONS,
    PETS,
    WORKPLACES,
    any_of,
)
from holdfast.learn.rules.table import Rule, pattern

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
        pattern(
            r"(?:live|lives|living|reside|resides|residing) (?:here |now |alone |together |on (?:my|his|her|"
            r"our) own |"
            r"by (?:my|him|her)self |(?:since|for) (?:\w+ ){1,3}|with (?:my|his|her|our|a|some|two|"
            r"three) (?:\w+ ){1,3}?)?"
            r"in (?P<v>.+)"
        ),
        values.place,
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "home",
        pattern(rf"{_BE} (?:living|based|located|residing|now based|renting)(?: out)? (?:in|of) (?P<v>.+)"),
        values.place,
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "home",
        pattern(
            r"(?:moved|relocated|emigrated) (?:back |over |down |up |out |house )?(?:from [^,;]{2,40}? )?to (?P<v>.+)"
        ),
        values.new_place,
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "home",
        pattern(
            r"(?:moved into|live in|lives in) (?:a|an|our|my|the|his|her) (?:[\w-]+ ){0,2}"
            r"(?:place|flat|house|apartment|home|studio|cottage|village|town|suburb) (?:in|near|of|outside) (?P<v>.+)"
        ),
        values.place,
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "home",
        pattern(
            rf"(?:{_BE} )?(?:now )?(?:sharing|renting) (?:a|an) (?:[\w-]+ ){{0,2}}(?:place|flat|house|apartment|room|"
            rf"studio)(?: with (?:\w+ ){{1,3}}?)? in (?P<v>.+)"
        ),
        values.place,
        exclusive=True,
        salience=0.8,
    ),
    Rule("home", pattern(r"(?:settled|settled down) in (?P<v>[A-Z].+)"), values.named_place, exclusive=True),
    # "I lived in Berlin" is over; "I have lived in Berlin for years" is not, see accepts().
    Rule("home", pattern(r"lived in (?P<v>.+)"), values.place, exclusive=True, salience=0.6),
    Rule("origin", pattern(rf"{_BE} (?:originally )?from (?P<v>.+)"), values.named_place, exclusive=True),
    Rule(
        "origin",
        pattern(r"(?:grew up|come|comes|was born(?: and raised)?|were born|was raised) (?:in|from) (?P<v>[A-Z].+)"),
        values.named_place,
        exclusive=True,
    ),
    Rule(
        "nationality",
        pattern(rf"{_BE} (?:half[- ])?(?P<v>{any_of(DEMONYMS)})(?=$|[,.!;]| and\b| but\b| by\b)"),
        exclusive=False,
    ),
    # What they do
    Rule(
        "employer",
        pattern(
            r"(?:work|works|working|worked) (?:part[- ]time |full[- ]time |remotely |now |nights |days |weekends |"
            r"shifts )*"
            r"(?:at|for) (?P<v>.+)"
        ),
        values.employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        pattern(
            rf"(?:work|works|working|worked) (?:part[- ]time |full[- ]time |nights |weekends )?in an? "
            rf"(?P<v>(?:[\w-]+ ){{0,2}}{any_of(WORKPLACES)})\b"
        ),
        exclusive=True,
        salience=0.7,
        confidence=0.8,
    ),
    Rule(
        "employer",
        pattern(
            r"(?:work|works|working|worked|started) as (?:a|an|the) [\w -]{2,40}? (?:at|for) (?P<v>(?!a living\b).+)"
        ),
        values.named_employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        pattern(
            rf"{_BE} (?:a|an|the) (?:[\w-]+ ){{0,3}}?{any_of(OCCUPATIONS)} (?:at|for|with) "
            rf"(?P<v>(?:the )?(?-i:[A-Z])(?!\w+day\b).+)"
        ),
        values.named_employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        pattern(r"(?:lost) (?:my|his|her) (?:old )?job (?:at|with) (?P<v>.+)"),
        values.employer,
        exclusive=True,
        over=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        pattern(rf"{_BE} (?:working|employed|interning) (?:at|for|by) (?P<v>.+)"),
        values.employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        pattern(
            r"(?:got|have|has|started|landed|took|accepted) (?:a|an|my|his|her|the) (?:new |great |part-time "
            r")?(?:job|position|internship|role) (?:at|with|for) (?P<v>.+)"
        ),
        values.employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        pattern(r"(?:joined|started at|started working at|started working for|drives? for|freelances? for) (?P<v>.+)"),
        values.organisation,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        pattern(r"(?:am|is|are) (?:now |still )?at (?P<v>[A-Z][\w&.-]*(?: [A-Z][\w&.-]*)*) now"),
        exclusive=True,
        confidence=0.7,
    ),
    Rule(
        "employer",
        pattern(
            r"(?:quit|left|resigned from|retired from) (?:my |his |her |our |the )?(?:old )?(?:job|position|"
            r"role|gig) (?:at|with) (?P<v>.+)"
        ),
        values.employer,
        exclusive=True,
        over=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        pattern(r"(?:accepted|took) (?:the|an|a|their) (?:job )?offer (?:from|at) (?P<v>.+)"),
        values.organisation,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        pattern(r"(?:my |his |her )?(?:job|position) (?:at|with) (?P<v>.+)"),
        values.employer,
        exclusive=True,
        salience=0.7,
    ),
    Rule(
        "employer",
        pattern(r"(?:was|were|got|have been|has been) (?:laid off|fired|let go) (?:from|by) (?P<v>.+)"),
        values.employer,
        exclusive=True,
        over=True,
    ),
    Rule(
        "employer",
        pattern(r"(?:quit|left|resigned from|retired from) (?P<v>[A-Z].+)"),
        values.organisation,
        exclusive=True,
        over=True,
    ),
    Rule("employer", pattern(r"(?P<v>(?-i:[A-Z][\w&]+(?: [A-Z][\w&]+)?))$"), exclusive=True, when="quit"),
    Rule(
        "role",
        pattern(
            rf"(?:work|works|working|worked|started|{_BE} working|{_BE} employed)"
            rf"(?: (?:at|for) .{{2,40}}?)? as (?:a|an|the) (?P<v>.+)"
        ),
        values.any_role,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "role",
        pattern(rf"{_BE} (?:a|an|the) (?:\d\d?[ -]years?[ -]old )?(?P<v>.+)"),
        values.role,
        exclusive=True,
        salience=0.75,
    ),
    Rule("age", pattern(rf"{_BE} (?P<v>\d\d) ?[mf]\b"), exclusive=True),
    Rule("timezone", pattern(rf"{_BE} in (?:the )?(?P<v>[A-Za-z]{{2,8}}) time ?zone"), exclusive=True),
    Rule("age", pattern(rf"{_BE} (?:a|an) (?P<v>\d\d?)[ -]years?[ -]old\b"), exclusive=True),
    Rule("role", pattern(r"(?:became|become) (?:a|an|the) (?P<v>.+)"), values.role, exclusive=True, salience=0.75),
    Rule(
        "role",
        pattern(r"(?:got|was|were|been) promoted to (?P<v>.+)"),
        values.promoted_role,
        exclusive=True,
        salience=0.75,
    ),
    Rule("role", pattern(rf"{_BE} (?P<v>retired|unemployed|self-employed)\b"), exclusive=True),
    Rule(
        "studies",
        pattern(
            r"(?:study|studies|studying|studied|am studying|is studying|are studying) (?P<v>(?!for\b|at\b|"
            r"in\b|abroad\b|hard\b|the\b|how\b|with\b|it\b)[^,.;!?]+?)(?: at .+| in .+| for .+)?$"
        ),
        values.thing,
    ),
    Rule("studies", pattern(rf"(?:{_BE} )?(?:majoring|majored) in (?P<v>[^,.;!?]+?)(?: at .+)?$"), values.thing),
    Rule(
        "studies",
        pattern(
            rf"(?:{_BE} doing|have|has|{_BE} (?:getting|finishing|pursuing)|got|did|doing) (?:a|an|my|his|her) "
            rf"(?:PhD|master's|masters|bachelor's|MSc|MA|BA|BSc|degree|doctorate)(?: degree)? in "
            rf"(?P<v>[^,.;!?]+?)(?: at .+| from .+)?$"
        ),
        values.thing,
    ),
    Rule(
        "school",
        pattern(
            r"(?!.*\b(?:possibility|chance|idea|dream|thought|option|apply|applying|considering) )"
            r"(?:.*\b)?(?:study|studies|studying|studied|PhD|master's|degree|majoring|MSc|BA|BSc)\b.* at "
            r"(?P<v>(?:the )?(?-i:[A-Z]).+)"
        ),
        values.employer,
    ),
    Rule(
        "school",
        pattern(
            rf"(?:{_BE} (?:a|an) (?:\w+ )?student at|go to|goes to|{_BE} enrolled at|graduated from) "
            rf"(?P<v>(?:the )?[A-Z].+(?:University|College|School|Institute|Academy|Uni)\b.*|(?:the "
            rf")?University.+)"
        ),
        values.employer,
    ),
    # Age, family, health
    Rule(
        "age",
        pattern(
            rf"{_BE} (?P<v>\d{{1,3}})(?: years old| yrs old| yo| y/o)?(?=$|[,.!;]| and\b| now\b| not \d| "
            rf"years\b)(?!.*\b(?:minutes|hours|years (?:into|away|behind))\b)"
        ),
        exclusive=True,
    ),
    Rule(
        "age",
        pattern(rf"{_BE} (?:only |just |nearly |almost |already )?(?P<v>{_AGES})(?:[ -]years?[ -]old)"),
        exclusive=True,
    ),
    Rule(
        "age",
        pattern(rf"{_BE} (?:only |just |already )(?P<v>(?!one\b){_AGES})(?=$|[,.!;])"),
        exclusive=True,
        when="others",
    ),
    Rule("age", pattern(rf"turned (?P<v>{_AGES})\b(?! (?:percent|degrees|years? into))"), exclusive=True),
    Rule("birthday", pattern(rf"(?:was|were) born on (?P<v>{DAY}.*)"), values.span, exclusive=True),
    Rule(
        "relationship",
        pattern(
            rf"(?:{_BE}|got|get|have been|been) (?:happily |recently )?(?P<v>married|engaged|divorced|single|"
            rf"widowed|separated)\b(?! (?:in|with) (?:a|the|this) (?:project|debate|discussion)|"
            rf" to (?:the|my|his|her|this|it)\b)"
        ),
        exclusive=True,
    ),
    Rule(
        "family",
        pattern(
            rf"(?:have|has|got) (?P<v>{COUNTS} (?:\w+ )?(?:{any_of(KIN)}))(?!\w|'|’|-| (?:named|called|to|in this)\b)"
        ),
        salience=0.7,
    ),
    Rule(
        "pet",
        pattern(
            rf"(?:have|has|got|adopted|own|owns|bought) (?P<v>(?!some (?:\w+ )?(?:chicken|fish|rabbit|"
            rf"goat)\b){COUNTS} (?:(?!of\b)[\w-]+ "
            rf"){{0,2}}{any_of(PETS)})(?=$|[,.!;]| (?:and|last|this|from|who|that|for|two|three|in|yesterday|"
            rf"recently|with|when|because|but|now|ago|at|today)\b(?! this fight))"
        ),
        values.bare_thing,
    ),
    Rule(
        "allergy",
        pattern(rf"(?:{_BE} )?(?:\w+ly |super |very |quite |also )*al{{1,2}}ergic to (?P<v>.+)"),
        values.allergen,
        salience=0.9,
        tags=("health",),
    ),
    Rule(
        "allergy",
        pattern(
            rf"(?:have|has|got) (?:a |an )?(?:severe |bad |mild |serious )?(?P<v>(?!no\b|any\b){_ALLERGEN}) "
            rf"allerg(?:y|ies)\b"
        ),
        salience=0.9,
        tags=("health",),
    ),
    Rule(
        "allergy",
        pattern(rf"{_BE} (?P<v>lactose|gluten|histamine|fructose)[ -]intolerant"),
        salience=0.9,
        tags=("health",),
    ),
    Rule(
        "diet",
        pattern(
            rf"(?:{_BE}|been|went|go|turned|became|become|eat|eats) (?:a |strictly |strict |mostly |fully "
            rf")*(?P<v>{any_of(DIETS)})s?\b(?!['’])"
        ),
        exclusive=True,
        salience=0.8,
    ),
    Rule(
        "health",
        pattern(
            rf"(?:have|has|suffer from|suffers from|live with) (?P<v>(?:mild |severe |chronic |bad |type \d "
            rf")*{any_of(CONDITIONS)})\b(?! (?:about|over)\b)"
        ),
        salience=0.8,
        tags=("health",),
    ),
    Rule(
        "health",
        pattern(
            rf"{_BE} (?:a |an |legally |severely |partially )?(?P<v>diabetic|asthmatic|dyslexic|autistic|epileptic|"
            rf"colou?r[- ]?blind|pregnant|deaf|hard of hearing|visually impaired|bipolar)(?=$|[,.!;]| (?:and|but|"
            rf"so|in|since|with)\b)"
        ),
        salience=0.8,
        tags=("health",),
    ),
    Rule(
        "health",
        pattern(r"(?:was|were|got|been|is|am) diagnosed with (?P<v>.+)"),
        values.allergen,
        salience=0.8,
        tags=("health",),
    ),
    Rule("status", pattern(r"(?P<v>passed away|died)\b"), exclusive=True, salience=0.8),
    # What they do with their days
    Rule("eats", pattern(r"(?:eat|eats|can not eat) (?P<v>.+)"), values.thing, when="denied"),
    Rule(
        "drinks",
        pattern(r"(?P<v>drink|drinks)(?=$|[,.;!]| (?:so|at all|and|but|because)\b)"),
        when="denied",
        fixed="alcohol",
    ),
    Rule("drinks", pattern(r"(?:drink|drinks|drinking|can not drink) (?P<v>.+)"), values.thing, when="denied"),
    Rule(
        "habit",
        pattern(
            r"(?P<v>smoking|drinking|gambling|vaping|biting my nails)"
            r"(?=$|[,.;!]| (?:and|but|in|last|because|since|for|a|two|this|when|after|years|cold)\b)"
        ),
        when="denied",
    ),
    Rule("habit", pattern(r"(?P<v>smoke|smokes|vape|vapes)$"), when="now"),
    Rule(
        "hobby", pattern(rf"(?:play|plays|playing|{_BE} playing) (?:the )?(?P<v>{any_of(HOBBIES)})\b"), exclusive=False
    ),
    Rule(
        "hobby",
        pattern(
            r"(?P<v>(?:run|runs|swim|swims|cycle|cycles|hike|hikes|climb|climbs|surf|surfs|paint|paints|knit|"
            r"knits|meditate|garden|sail|sails|do yoga|does yoga|go (?:running|hiking|swimming|climbing|"
            r"cycling|fishing|surfing)|goes (?:running|hiking|swimming)))\b.{0,20}\b(?:every|each|daily|twice|"
            r"once|on (?:weekends|mondays|tuesdays|wednesdays|thursdays|fridays|saturdays|sundays))\b"
        ),
    ),
    Rule("hobby", pattern(r"(?:collect|collects) (?P<v>.+)"), values.thing),
    Rule(
        "language",
        pattern(
            rf"(?:speak|speaks) (?:fluent |some |a bit of |a little |native |good |both )*"
            rf"(?P<v>{any_of(LANGUAGES)}\b.*)"
        ),
        values.given,
    ),
    Rule(
        "learning",
        pattern(
            rf"(?:{_BE} |been )?(?:learning|started learning|learn) (?P<v>(?!how\b|to\b|about\b|that\b|a lot\b|"
            rf"from\b|the\b|my\b|a\b|this\b|some\b|it\b|new\b)[\w+#.-]+(?: (?-i:[A-Z])\w+)?)\b.*"
        ),
        values.thing,
    ),
    Rule("owns", pattern(r"(?:own|owns) (?P<v>(?:a|an|two|three|the|my) .+)"), values.bare_thing),
    Rule(
        "owns",
        pattern(
            r"(?:drive|drives|ride|rides) (?P<v>(?:a|an) (?!(?:\w+ )?(?:bus|coach|truck|lorry|taxi|cab|train|tram|"
            r"van for|forklift|"
            r"ambulance|crane|digger|hard|long|lot)\b).+)"
        ),
        values.bare_thing,
    ),
    Rule(
        "owns",
        pattern(
            rf"(?:bought|just bought|got myself|purchased) (?:myself |ourselves )?(?P<v>(?:a|an|our|my) "
            rf"(?:[\w-]+ ){{0,3}}{any_of(BELONGINGS)}\b.*)"
        ),
        values.bare_thing,
    ),
    Rule(
        "visited",
        pattern(r"(?:(?:went|been|travell?ed|flew) to|(?:got back|came back|returned) from) (?P<v>[A-Z].+)"),
        values.named_place,
        when="holds",
        layer=Layer.EPISODIC,
        salience=0.4,
    ),
    Rule(
        "visited",
        pattern(r"visited (?P<v>[A-Z].+)"),
        values.named_place,
        when="holds",
        layer=Layer.EPISODIC,
        salience=0.4,
    ),
    # What they mean to do
    Rule("plan", pattern(rf"(?P<v>{_GOING}\b.+)"), values.deed, when="future", salience=0.6, confidence=0.8),
    Rule(
        "plan",
        pattern(
            rf"{_BE} (?P<v>(?:moving|relocating|flying|travelling|traveling|going) to (?-i:[A-Z]).*|"
            rf"visiting (?-i:[A-Z]).*\b(?:next|tomorrow|in|on|this|over)\b.*|(?:getting "
            rf"married|retiring|getting engaged)(?: (?:to|in|on|next|this) .*)?)"
        ),
        values.intent,
        when="holds",
    ),
    Rule(
        "plan",
        pattern(
            rf"{_BE} planning (?:a|an|our|my|his|her) (?:\w+ )?"
            r"(?P<v>(?:trip|holiday|vacation|wedding|party|move) (?:to|in|for|from|around|this|next|on)\b"
            r"(?! the (?:\w+ )?(?:store|gym|mall|shop|supermarket)).+?)"
            r"(?: and (?:I|was|am|need|want|thinking|looking|trying)\b.*)?$"
        ),
        values.intent,
        when="holds",
    ),
    Rule(
        "goal",
        pattern(
            r"(?:want|wants) to (?P<v>(?:learn (?!more\b|about\b|how\b|if\b)|become\b|run a|lose (?:weight|\d|"
            r"some)|visit\b|travel\b|climb\b|write a|read \d|quit\b|retire\b|save (?:up|for|money|\d)|start a|"
            r"move to|buy a|open a|get fit|get in shape).+)"
        ),
        values.deed,
        when="holds",
        salience=0.6,
        confidence=0.75,
    ),
    Rule("goal", pattern(rf"{_BE} (?:training|saving(?: up)?) for (?P<v>.+)"), values.deed, when="holds", salience=0.6),
    Rule(
        "goal",
        pattern(
            rf"{_BE} (?:hoping|trying|aiming) to (?P<v>(?:learn (?!more\b|about\b|how\b|if\b)|become\b|run a|"
            rf"lose (?:weight|\d)|visit\b|travel\b|quit\b|save (?:up|for|money|\d)|retire\b|move to|eat (?:less|"
            rf"more|better|health)).+)"
        ),
        values.deed,
        when="holds",
        salience=0.6,
        confidence=0.75,
    ),
)
