"""Facts about people's work and studies."""

from __future__ import annotations

from limpet.knowledge.english import values
from limpet.knowledge.english.lexicon import OCCUPATIONS, WORKPLACES, any_of
from limpet.knowledge.english.values import Rule, compile_pattern

_BE = r"(?:am|is|are|im)"

RULES: tuple[Rule, ...] = (
    Rule(
        "employer",
        compile_pattern(
            r"(?:work|works|working|worked) (?:part[- ]time |full[- ]time |remotely |now |nights |days |weekends |"
            r"shifts )*"
            r"(?:at|for) (?P<v>.+)"
        ),
        values.parse_employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(
            rf"(?:work|works|working|worked) (?:part[- ]time |full[- ]time |nights |weekends )?in an? "
            rf"(?P<v>(?:[\w-]+ ){{0,2}}{any_of(WORKPLACES)})\b"
        ),
        exclusive=True,
        salience=0.7,
        confidence=0.8,
    ),
    Rule(
        "employer",
        compile_pattern(
            r"(?:work|works|working|worked|started) as (?:a|an|the) [\w -]{2,40}? (?:at|for) (?P<v>(?!a living\b).+)"
        ),
        values.parse_named_employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(
            rf"{_BE} (?:a|an|the) (?:[\w-]+ ){{0,3}}?{any_of(OCCUPATIONS)} (?:at|for|with) "
            rf"(?P<v>(?:the )?(?-i:[A-Z])(?!\w+day\b).+)"
        ),
        values.parse_named_employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(r"(?:lost) (?:my|his|her) (?:old )?job (?:at|with) (?P<v>.+)"),
        values.parse_employer,
        exclusive=True,
        over=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(rf"{_BE} (?:working|employed|interning) (?:at|for|by) (?P<v>.+)"),
        values.parse_employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(
            r"(?:got|have|has|started|landed|took|accepted) (?:a|an|my|his|her|the) (?:new |great |part-time "
            r")?(?:job|position|internship|role) (?:at|with|for) (?P<v>.+)"
        ),
        values.parse_employer,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(
            r"(?:joined|started at|started working at|started working for|drives? for|freelances? for) (?P<v>.+)"
        ),
        values.parse_organisation,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(r"(?:am|is|are) (?:now |still )?at (?P<v>[A-Z][\w&.-]*(?: [A-Z][\w&.-]*)*) now"),
        exclusive=True,
        confidence=0.7,
    ),
    Rule(
        "employer",
        compile_pattern(
            r"(?:quit|left|resigned from|retired from) (?:my |his |her |our |the )?(?:old )?(?:job|position|"
            r"role|gig) (?:at|with) (?P<v>.+)"
        ),
        values.parse_employer,
        exclusive=True,
        over=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(r"(?:accepted|took) (?:the|an|a|their) (?:job )?offer (?:from|at) (?P<v>.+)"),
        values.parse_organisation,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(r"(?:my |his |her )?(?:job|position) (?:at|with) (?P<v>.+)"),
        values.parse_employer,
        exclusive=True,
        salience=0.7,
    ),
    Rule(
        "employer",
        compile_pattern(
            r"(?:was|were|got|have been|has been) (?:laid off|fired|let go|made redundant) (?:from|by) (?P<v>.+)"
        ),
        values.parse_employer,
        exclusive=True,
        over=True,
    ),
    Rule(
        "employer",
        compile_pattern(
            r"(?:have |has )?(?:retired|resigned) from (?P<v>(?:the|my job (?:at|with)) "
            r"(?!(?:game|sport|league|match|race|tournament|competition|team|meeting|world|committee|board)\b).+)"
        ),
        values.parse_employer,
        exclusive=True,
        over=True,
        salience=0.75,
    ),
    Rule(
        "employer",
        compile_pattern(r"(?:quit|left|resigned from|retired from) (?P<v>[A-Z].+)"),
        values.parse_organisation,
        exclusive=True,
        over=True,
    ),
    Rule("employer", compile_pattern(r"(?P<v>(?-i:[A-Z][\w&]+(?: [A-Z][\w&]+)?))$"), exclusive=True, when="quit"),
    Rule(
        "role",
        compile_pattern(
            rf"(?:work|works|working|worked|started|freelance|freelances|freelancing|{_BE} working|{_BE} employed)"
            rf"(?: (?:at|for) .{{2,40}}?)? as (?:a|an|the) (?P<v>.+)"
        ),
        values.parse_any_role,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "role",
        compile_pattern(rf"{_BE} (?:a|an|the) (?:\d\d?[ -]years?[ -]old )?(?P<v>.+)"),
        values.parse_role,
        exclusive=True,
        salience=0.75,
    ),
    Rule("age", compile_pattern(rf"{_BE} (?P<v>\d\d) ?[mf]\b"), exclusive=True),
    Rule("timezone", compile_pattern(rf"{_BE} in (?:the )?(?P<v>[A-Za-z]{{2,8}}) time ?zone"), exclusive=True),
    Rule("age", compile_pattern(rf"{_BE} (?:a|an) (?P<v>\d\d?)[ -]years?[ -]old\b"), exclusive=True),
    Rule(
        "role",
        compile_pattern(r"(?:became|become) (?:a|an|the) (?P<v>.+)"),
        values.parse_role,
        exclusive=True,
        salience=0.75,
    ),
    Rule(
        "role",
        compile_pattern(r"(?:got|was|were|been) promoted to (?P<v>.+)"),
        values.parse_promoted_role,
        exclusive=True,
        salience=0.75,
    ),
    Rule("role", compile_pattern(rf"{_BE} (?P<v>retired|unemployed|self-employed)\b"), exclusive=True),
    Rule(
        "studies",
        compile_pattern(
            r"(?:study|studies|studying|studied|am studying|is studying|are studying) (?P<v>(?!for\b|at\b|"
            r"in\b|abroad\b|hard\b|the\b|how\b|with\b|it\b)[^,.;!?]+?)(?: at .+| in .+| for .+)?$"
        ),
        values.parse_thing,
    ),
    Rule(
        "studies",
        compile_pattern(rf"(?:{_BE} )?(?:majoring|majored) in (?P<v>[^,.;!?]+?)(?: at .+)?$"),
        values.parse_thing,
    ),
    Rule(
        "studies",
        compile_pattern(
            rf"(?:{_BE} doing|have|has|{_BE} (?:getting|finishing|pursuing)|got|did|doing) (?:a|an|my|his|her) "
            rf"(?:PhD|master's|masters|bachelor's|MSc|MA|BA|BSc|degree|doctorate)(?: degree)? in "
            rf"(?P<v>[^,.;!?]+?)(?: at .+| from .+)?$"
        ),
        values.parse_thing,
    ),
    Rule(
        "school",
        compile_pattern(
            r"(?!.*\b(?:possibility|chance|idea|dream|thought|option|apply|applying|considering) )"
            r"(?:.*\b)?(?:study|studies|studying|studied|PhD|master's|degree|majoring|MSc|BA|BSc)\b.* at "
            r"(?P<v>(?:the )?(?-i:[A-Z]).+)"
        ),
        values.parse_employer,
    ),
    Rule(
        "school",
        compile_pattern(
            rf"(?:{_BE} (?:a|an) (?:\w+ )?student at|go to|goes to|{_BE} enrolled at|graduated from) "
            rf"(?P<v>(?:the )?[A-Z].+(?:University|College|School|Institute|Academy|Uni)\b.*|(?:the "
            rf")?University.+)"
        ),
        values.parse_employer,
    ),
)
