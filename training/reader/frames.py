"""Make plain statements, and questions, suppositions and other people's words with the same contents.

    python training/reader/frames.py      # writes training/reader/data/frames.jsonl

Written conversations seldom say "I'm allergic to peanuts." and nothing else; people who talk to an assistant do. Each
frame with a value is one message. What stands in braces is the claim; a frame without is refused, for the reason given.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

COUNT = 900
WORDS = {
    "food": "peanuts|shellfish|cow's milk|sesame|kiwi|eggs|wheat|soy|strawberries|almonds|celery|mustard|lupin|prawns",
    "dish": "sushi|lentil soup|pierogi|jollof rice|lasagne|kimchi|black coffee|green olives|blue cheese|ramen|"
    "marmite|dim sum",
    "city": "Porto|Lisbon|Gdansk|Oslo|Lagos|Quito|Hanoi|Leeds|Tbilisi|Austin|Bergen|Nantes|Perth|Cork|Kyoto|"
    "Malmö|Pune|Cusco",
    "job": "nurse|plumber|data analyst|primary school teacher|bus driver|pastry chef|vet|lawyer|carpenter|"
    "midwife|translator|"
    "software engineer|librarian|electrician|barber|geologist|paramedic|tax adviser|florist|architect",
    "firm": "Siemens|the city council|a small bakery|Ørsted|St. Mary's Hospital|a start-up called Birdsong|"
    "the railway|Maersk|"
    "Toyota|the university library|an insurance company",
    "drug": "metformin|sertraline|warfarin|ibuprofen|levothyroxine|omeprazole|lisinopril|amlodipine|bisoprolol|insulin|"
    "methotrexate|ramipril|escitalopram|the pill|beta blockers|statins|antihistamines",
    "illness": "asthma|type 1 diabetes|coeliac disease|migraines|epilepsy|high blood pressure|arthritis|ADHD|"
    "endometriosis|"
    "Crohn's|eczema|a heart condition|hay fever|dyslexia|osteoporosis|sleep apnoea",
    "diet": "vegetarian|vegan|pescatarian|gluten free|lactose intolerant|kosher|halal|on a low-salt diet",
    "kin": "sister|brother|mum|dad|wife|husband|son|daughter|cousin|best friend|flatmate|boss|neighbour|"
    "grandmother|partner",
    "name": "Ana|Tomasz|Priya|Kwame|Ingrid|Yuki|Mateo|Leila|Aoife|Dmitri|Chidi|Noor|Elif|Jonas|Mei|Rosa|Henrik|Zanele",
    "pet": "cat|dog|greyhound|parrot|rabbit|hamster|labrador|tortoise|pony|beagle",
    "hobby": "pottery|birdwatching|knitting|board games|gardening|photography|woodworking|calligraphy|chess|"
    "baking|stargazing",
    "sport": "climbing|badminton|rowing|judo|cycling|swimming|tennis|trail running|handball|cricket",
    "subject": "biology|law|computer science|nursing|Korean|economics|history of art|statistics|sign language|"
    "accounting",
    "language": "Portuguese|Polish|Arabic|Tamil|French|Swahili|Welsh|Turkish|Hindi|German",
    "tool": "Neovim|Django|Terraform|VS Code|PostgreSQL|Rust|pytest|Kubernetes|Excel|Blender|React|SQLite",
    "rule": "use bullet points|write in metric units|answer in French|call me by my first name|use emojis|"
    "explain your steps|"
    "use British spelling|keep answers under 100 words|add tests|ask before deleting anything|cite sources",
    "n": "19|24|27|31|34|38|42|47|53|61|68|74",
    "date": "3 May|the 12th of June|21 November|next Friday|1 September|the end of March|14 February|Monday week",
    "car": "a Skoda|an old Volvo|a Yamaha motorbike|a Tesla|a cargo bike|a Ford Transit|a Renault Zoe",
    "money": "800 euros|$1,500|20,000 kr|£300|40 dollars|2 million pesos",
}
# message|attribute kind status [whose]
STATED = """
{I'm allergic to <food>|allergy fact holds}
{i have a <food> allergy|allergy fact holds}
{My <kin> is allergic to <food>|allergy fact holds other}
{I can't eat <food>|diet constraint holds}
{I live in <city>|home fact holds}
{I've lived in <city> since 20<n>|home fact holds}
{I moved to <city> last month|home fact holds}
{we're based in <city>|home fact holds}
{My <kin> lives in <city>|home fact holds other}
{My <kin> <name> moved to <city>|home fact holds other}
{I no longer live in <city>|home fact ended}
{I'm from <city> originally|origin fact holds}
{I grew up in <city>|origin fact holds}
{I work as a <job>|role fact holds}
{I'm a <job>|role fact holds}
{I'm a <job>|role fact holds} and {I live in <city>|home fact holds}
{My <kin> is a <job>|role fact holds other}
{My <kin> <name> works as a <job>|role fact holds other}
{I work at <firm>|employer fact holds}
{I started at <firm> in spring|employer fact holds}
{I left <firm>|employer fact ended}
{I used to work for <firm>|employer fact past}
{I was a <job> for <n> years|role fact past}
{I take <drug>|medication fact holds}
{i take <drug> every morning|medication fact holds}
{I'm on <drug>|medication fact holds}
{My <kin> takes <drug>|medication fact holds other}
{I stopped taking <drug>|medication fact ended}
{I have <illness>|health fact holds}
{i was diagnosed with <illness> last year|health fact holds}
{My <kin> has <illness>|health fact holds other}
{I'm <diet>|diet fact holds}
{I'm <diet>|diet fact holds} and {allergic to <food>|allergy fact holds}
{I'm <n>|age fact holds} and {I have <illness>|health fact holds}
{my <kin> is <diet>|diet fact holds other}
{I've been <diet> for years|diet fact holds}
{I'm not <diet> any more|diet fact ended}
{My name is <name>|name fact holds}
hi, {I'm <name>|name fact holds}
{Call me <name>|name instruction holds}
{My <kin>'s name is <name>|name fact holds other}
{My <kin> is called <name>|family relationship holds other}
{I have a <pet> called <name>|pet fact holds}
{we have a <pet>|pet fact holds}
{Our <pet> <name> died|pet event past}
{I'm <n> years old|age fact holds}
{I'm <n>|age fact holds}
{My <kin> is <n>|age fact holds other}
{my birthday is <date>|birthday fact holds}
{I love <dish>|likes preference holds}
{my favourite food is <dish>|likes preference holds}
{I hate <dish>|dislikes preference holds}
{I don't like <dish>|dislikes preference holds}
{I prefer <dish> to <dish>|likes preference holds}
{I do <hobby> at weekends|hobby fact holds}
{I'm really into <hobby>|hobby preference holds}
{My <kin> loves <hobby>|hobby fact holds other}
{I go <sport> twice a week|sport fact holds}
{I play <sport> on Thursdays|sport fact holds}
{I gave up <sport>|sport fact ended}
{I'm studying <subject>|studies fact holds}
{I'm learning <language>|studies fact holds}
{I speak <language> and English|language fact holds}
{We use <tool> at work|tools fact holds}
{I use <tool>, not <tool>|tools constraint holds}
{we switched from <tool> to <tool>|tools decision corrected}
{Always <rule>|assistant_rule instruction holds}
{Please always <rule>|assistant_rule instruction holds}
{From now on, <rule>|assistant_rule instruction holds}
{never <rule>|assistant_rule instruction holds}
{don't <rule>, ever|assistant_rule instruction holds}
{The deadline is <date>|deadline fact holds}
{My exam is on <date>|deadline plan planned}
{I'm flying to <city> on <date>|trip plan planned}
{we're getting married on <date>|plan plan planned}
{I'm moving to <city> on <date>|home plan planned}
{I drive <car>|vehicle fact holds}
{We sold <car>|vehicle fact ended}
{My budget is <money>|budget constraint holds}
{I can spend <money> at most|budget constraint holds}
{I want to learn <language> this year|goal goal holds}
{We decided to go with <tool>|decision decision holds}
{I'm married to <name>|partner relationship holds}
{My <kin> <name> and I split up|partner event ended}
{I'm in <city> this week|trip fact passing}
{I have a headache today|health fact passing}
{I'm on the train to <city>|trip fact passing}
Actually {it's <city>, not <city>|home fact corrected}
Correction: {I'm <n>, not <n>|age fact corrected}
"""
REFUSED = """
Am I allergic to <food>?|question
Is <food> a common allergy?|question
What can I cook for someone who is allergic to <food>?|question
If I were allergic to <food>, what then?|hypothetical
Where do I live?|question
Do I live in <city>?|question
What is it like to live in <city>?|question
How much does it cost to live in <city>?|question
If I lived in <city> I'd never leave the house|hypothetical
Imagine I live in <city> and work as a <job>|hypothetical
Translate: "I live in <city>."|somebody else's text
Write a story about a <job> called <name> who lives in <city>|task request
In the film he is a <job> in <city>|somebody else's text
Should I become a <job>?|question
What does a <job> earn?|question
I wish I was a <job>|hypothetical
he said "I work at <firm>"|reported
Does <firm> pay well?|question
What are the side effects of <drug>?|question
Do I take <drug>?|question
Can you take <drug> with <food>?|question
What causes <illness>?|question
Is <illness> hereditary?|question
Should I go <diet>?|question
Suppose I'm <diet>, which dish would you pick?|hypothetical
Is <dish> <diet>?|question
What is my name?|question
How old is <name>?|question
Name three cities like <city>|task request
Write a poem about my <pet>|task request
Draw a <pet>|task request
When is my birthday?|question
how do i make <dish>?|question
Give me a recipe for <dish>|task request
This <dish> is great|opinion of the moment
Do I like <dish>?|question
What do you think about <hobby>?|question
Is <sport> dangerous?|question
Explain <subject> to me|task request
How do you say thank you in <language>?|question
Translate this into <language>|task request
Fix my <tool> config|task request
What's the difference between <tool> and <tool>?|question
Can you <rule> just this once?|task request
Please <rule> in this one|task request
When is the deadline?|question
Find me flights to <city> on <date>|task request
What's the weather in <city>?|question
Would <car> be a good buy?|question
Is <money> a lot for that?|question
Let's say my budget is <money>, what could I get?|hypothetical
My <kin> would kill me lol|joke
Thanks, <name>!|small talk
don't save this: I have <illness>|asked not to remember
Please forget that I take <drug>|asked not to remember
My character <name> is a <job> from <city>|task request
Pretend you are a <job> from <city>|task request
The article says people with <illness> should avoid <food>|reported
"I'm <name>, I'm <n> and I love <dish>" is how the advert starts|somebody else's text
"""
OPENINGS = (
    "",
    "",
    "",
    "",
    "",
    "hey, ",
    "btw ",
    "So ",
    "ok ",
    "Just so you know, ",
    "Hi! ",
    "Also, ",
    "By the way, ",
    "well ",
)
ENDINGS = (
    ".",
    ".",
    ".",
    "",
    "",
    "",
    "!",
    " :)",
    ", thanks",
    " haha",
    ". What do you think?",
    ". Can you help me plan something?",
)


def fill(frame: str, chosen: random.Random) -> str:
    return re.sub(r"<(\w+)>", lambda found: chosen.choice(WORDS[found[1]].split("|")), frame)


def make_stated(frame: str, chosen: random.Random) -> tuple[str, list[dict[str, object]]]:
    text, claims = "", []
    for part in re.split(r"(\{[^}]*\})", fill(frame, chosen)):
        if not part.startswith("{"):
            text += part
            continue
        quote, labels = part[1:-1].rsplit("|", 1)
        attribute, kind, status, *whose = labels.split()
        about = "user's relative" if whose else "user"
        claims.append(
            {"turn": 1, "quote": quote, "about": about, "attribute": attribute, "kind": kind, "status": status}
        )
        text += quote
    return text, claims


def main() -> None:
    chosen = random.Random(11)
    stated, refused = (frames.strip().split("\n") for frames in (STATED, REFUSED))
    rows, seen = [], set()
    while len(rows) < COUNT:
        if chosen.random() < 0.55:
            text, claims = make_stated(chosen.choice(stated), chosen)
            why = ""
            text = chosen.choice(OPENINGS) + text + chosen.choice(ENDINGS)
        else:
            frame, why = chosen.choice(refused).rsplit("|", 1)
            text, claims = chosen.choice(OPENINGS[:10]) + fill(frame, chosen), []
        if chosen.random() < 0.35:
            text = text.lower()
            claims = [{**claim, "quote": str(claim["quote"]).lower()} for claim in claims]
        if text in seen:
            continue
        seen.add(text)
        nothing = [{"turn": 1, "why": why}] if why else []
        turn = {"n": 1, "day": "2026-04-01", "speaker": "user", "text": text}
        rows.append({"id": f"t-{len(rows):04d}", "turns": [turn], "claims": claims, "nothing": nothing})
    path = Path(__file__).parent / "data" / "frames.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


if __name__ == "__main__":
    main()
