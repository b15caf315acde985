"""The vocabulary of the lives in bench/lives.py. ``{}`` is a value, ``{name}`` one of SLOTS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Topic(NamedTuple):
    """A single-valued attribute of a person, and how they state it."""

    type: str
    attribute: str
    pool: str
    first: tuple[str, ...]
    change: tuple[str, ...]
    question: str
    days: tuple[int, int]  # a value is valid this long
    subject: str = "user"
    several: bool = False  # several people may have it, so nothing is superseded


POOLS: Mapping[str, tuple[str, ...]] = {
    "city": tuple(
        (
            "Lisbon,Tampere,Nairobi,Ghent,Osaka,Valparaiso,Tallinn,Bilbao,Leipzig,Quito,Malmo,Galway,Turin,Porto,Hanoi,"
            "Bergen,Graz,Split,Cusco,Lund,Tulsa,Accra,Basel,Utrecht,Lviv,Kyoto,Bremen,Cadiz,Dakar,Perth,Riga,Zagreb,"
            "Nantes,Krakow,Bologna,Aarhus,Sapporo,Cork,Toledo,Lyon,Gdansk,Tromso,Salta,Izmir,Varna,Siena,Bern,Trieste"
        ).split(",")
    ),
    "firm": tuple("Fernhill,Brightwater,Novalux,Kestrel Labs,Oakstead,Pinemark,Tidewell,Corvane,Hexaloom".split(",")),
    "person": tuple("Marta,Petra,Olu,Henrik,Dario,Mei,Paulo,Bea,Inge,Ferran,Yusuf,Klara,Tomas,Noor".split(",")),
    "dish": tuple("ramen,dumplings,paella,risotto,pierogi,falafel,laksa,moussaka,goulash,ceviche".split(",")),
    "band": tuple("Low Tide,Paper Lanterns,The Quiet Hours,Night Ferry,Copper Wire,Salt Road,Glass Owls".split(",")),
    "colour": tuple("teal,ochre,crimson,indigo,olive,turquoise,maroon,lavender".split(",")),
    "book": tuple("Middlemarch,Dune,Emma,Solaris,Ulysses,Beloved,Kim,Walden,Candide".split(",")),
    "phone": tuple(f"555-01{number}" for number in range(40, 60)),
    "thing": tuple("sushi,karaoke,camping,opera,oysters,crosswords,saunas,yoga,podcasts,bowling".split(",")),
    "impression": tuple(
        (
            "the harbour was lovely,the museums were packed,it rained all day,the food was superb,we got lost twice,"
            "the old town was magical,the trams were on strike,the beach was empty,the market was huge,"
            "the hotel was awful,the hills were steep,the people were kind,the bridges were stunning,it was freezing"
        ).split(",")
    ),
    "choice": tuple(
        "Postgres,Redis,Kafka,htmx,SQLite,Terraform,gRPC,Rust,Nginx,Parquet,Vault,Sentry,Caddy,Celery,Svelte,Django,"
        "Argon2,Protobuf,Grafana,MinIO,Podman,Flask,Zig,Elixir,Ansible,Kotlin".split(",")
    ),
    "component": tuple(
        "billing,search,login,export,invoice,upload,report,archive,mail,map,chat,payment,tax,catalogue,stock,shipping,"
        "review,coupon,audit,backup,image,video,newsletter,survey,calendar,ticket".split(",")
    ),
    "rule": tuple(
        "Never deploy the {} service on Fridays.;The {} service must run on ARM machines too.;"
        "Always run the linter before you touch the {} code.;Don't log personal data in the {} service.;"
        "The {} page must load in under two seconds.".split(";")
    ),
    "cause": tuple(
        "the disk was full;the token had expired;a column was missing;the clock was off by an hour;"
        "the certificate was outdated;two workers held the same lock;the cache was stale;a path had a space in it;"
        "the queue was never drained;the proxy cut the connection;the schema was older than the code;"
        "a null slipped into the totals;the container ran out of memory;an environment variable was unset".split(";")
    ),
    "remedy": tuple(
        "rotating the logs;renewing the token;adding the column;setting the clock to UTC;renewing the certificate;"
        "taking the lock in one place;clearing the cache on start;quoting the path;draining the queue at night;"
        "raising the proxy timeout;running the migration first;checking for nulls;doubling the memory limit;"
        "setting the variable in the unit file".split(";")
    ),
}

TOPICS: tuple[Topic, ...] = (
    Topic(
        "fact",
        "home",
        "city",
        ("I live in {}.", "I'm based in {} these days."),
        ("We moved to {} last week.", "I live in {} now.", "I've moved to {}, the boxes are still everywhere."),
        "Where do I live?",
        (90, 170),
    ),
    Topic(
        "fact",
        "employer",
        "firm",
        ("I work at {}.", "I work for {}."),
        ("I started a new job at {} on Monday.", "I work at {} now."),
        "Which company do I work for?",
        (100, 180),
    ),
    Topic(
        "fact",
        "name",
        "person",
        ("My boss is called {}.",),
        ("My new boss is called {}.", "My boss is called {} now."),
        "What is my boss called?",
        (80, 160),
        "user/boss",
    ),
    Topic(
        "fact",
        "employer",
        "firm",
        ("My husband works at {}.",),
        ("My husband works at {} now.",),
        "Where does my husband work?",
        (120, 200),
        "user/husband",
    ),
    Topic(
        "fact",
        "phone",
        "phone",
        ("My phone number is {}.",),
        ("My phone number is {} now.", "My new phone number is {}."),
        "What is my phone number?",
        (120, 220),
    ),
    *(
        Topic(
            "preference",
            f"favourite:{what}",
            what,
            (f"My favourite {what} is {{}}.",),
            (
                f"My favourite {what} is {{}} now.",
                f"My new favourite {what} is {{}}.",
                f"These days my favourite {what} is {{}}.",
            ),
            f"What is my favourite {what}?",
            (50, 120),
        )
        for what in ("dish", "band", "colour", "book")
    ),
    Topic(
        "fact",
        "home",
        "city",
        ("My sister lives in {}.",),
        ("My sister moved to {}.", "My sister lives in {} now."),
        "Where does my sister live?",
        (100, 170),
        "user/sister",
        several=True,
    ),
)

# Stated once, and permanent: type, attribute, sentence, question, what the answer contains.
LASTING: tuple[tuple[str, str, str, str, str], ...] = (
    ("fact", "allergy", "I'm allergic to walnuts.", "Which nuts am I allergic to?", "walnuts"),
    ("fact", "name", "I have a cat called Pepper.", "What is my cat called?", "Pepper"),
    ("fact", "language", "I speak Portuguese.", "Which foreign language do I speak?", "Portuguese"),
    ("fact", "origin", "I grew up in Ronda.", "Where did I grow up?", "Ronda"),
    ("fact", "hobby", "I play the cello.", "Which instrument do I play?", "cello"),
    ("fact", "owns", "I bought a red canoe.", "Which boat did I buy?", "canoe"),
    ("fact", "name", "My mother is called Ottilie.", "What is my mother called?", "Ottilie"),
    ("fact", "goal", "My goal is to swim across the lake.", "What is my goal?", "swim across the lake"),
    ("fact", "learning", "I'm learning the accordion.", "Which instrument am I learning?", "accordion"),
    ("fact", "studies", "I studied geology at Delft.", "What did I study?", "geology"),
    ("fact", "owns", "I drive a blue Skoda.", "Which car do I drive?", "Skoda"),
    ("fact", "plan", "I'm planning to walk the coast path.", "Which walk am I planning?", "coast path"),
)

# Stated explicitly: text, type, question, what the answer contains, pinned.
EXPLICIT: tuple[tuple[str, str, str, str, bool], ...] = (
    ("The blood type is A negative", "fact", "What is my blood type?", "A negative", False),
    ("The spare key is with Joaquim next door", "fact", "Who has the spare key?", "Joaquim", False),
    ("The passport expires on 4 May 2031", "fact", "When does my passport expire?", "4 May 2031", False),
    ("The wedding anniversary is on 12 June", "fact", "When is our anniversary?", "12 June", True),
    ("Answers should be in short sentences", "preference", "How should answers be worded?", "short sentences", True),
    ("Never book flights before nine in the morning", "constraint", "When may flights be booked?", "nine", True),
    ("The dentist is Dr Okafor in Mill Lane", "fact", "Who is my dentist?", "Okafor", False),
    ("The boiler was serviced by Hart and Sons", "fact", "Who serviced the boiler?", "Hart", False),
    ("The wifi at the cabin is called larchnet", "fact", "What is the wifi at the cabin?", "larchnet", False),
    ("The insurance number is KX 4471 B", "fact", "What is the insurance number?", "4471", False),
)

SLOTS: Mapping[str, tuple[str, ...]] = {
    "weather": ("rain", "fog", "sunshine", "wind", "drizzle", "snow", "haze"),
    "part": ("morning", "afternoon", "evening", "night"),
    "meal": ("soup", "a sandwich", "leftovers", "pancakes", "noodles", "a salad", "toast"),
    "mood": ("tired", "cheerful", "restless", "a bit slow", "fine", "hungry", "wide awake"),
    "topic": (
        "black holes",
        "sourdough",
        "the Hanse",
        "tax brackets",
        "tides",
        "owls",
        "compound interest",
        "glaciers",
    ),
    "show": ("the finale", "the quiz", "that documentary", "the match", "the late news"),
    "task": ("a shopping list", "a packing list", "a polite reminder", "a birthday card", "a table of contents"),
    "number": tuple(str(number) for number in range(11, 99)),
    "far": ("Mars", "Atlantis", "Antarctica", "Monaco", "Reykjavik", "Bhutan", "Patagonia"),
    "work": ("NASA", "Oracle", "the circus", "Interpol", "the BBC"),
}

SMALL_TALK: tuple[tuple[str, str], ...] = (
    ("Good {part}!", "Good {part} to you."),
    ("Nothing but {weather} this {part}.", "That sounds like a day for staying in."),
    ("What a day. {weather} at dawn and {weather} at noon.", "Quite a mix."),
    ("I had {meal} for lunch.", "Sounds good."),
    ("I'm {mood} today.", "I see."),
    ("How do {topic} work?", "That is a long story; in short, it depends on scale and time."),
    ("Tell me something about {topic}.", "People have wondered about {topic} for centuries."),
    ("Write me {task}, please.", "Here is {task}: first things first, then the rest."),
    ("What is {number} times {number}?", "Let me work that out for you."),
    ("Did you see {show} yesterday?", "I did not, how was it?"),
    ("The bus was {number} minutes late again.", "That is annoying."),
    ("Thanks, that helped.", "You are welcome."),
    ("ok", "Good."),
    ("Let's talk about {topic} tomorrow.", "Gladly."),
    ("That took {number} minutes, longer than I thought.", "These things do."),
    ("Can you convert {number} miles to kilometres?", "It is about one point six times as much."),
    ("I slept badly, the {weather} was so loud.", "I hope tonight is quieter."),
    ("It is almost {part}, time to stop.", "Until later, then."),
    ("Lol, the neighbour's parrot learned to say {topic}.", "A gifted bird."),
    ("Remind me why {topic} matter so much to people?", "Because they touch everyday life."),
    ("Could you make that shorter?", "Of course: less is more."),
    ("The queue at the post office was endless.", "Was there at least a chair?"),
    ("I might have {meal} again tonight.", "Why not."),
    ("Nice, {number} points in the quiz!", "Congratulations."),
    # Not worth storing, though worded like facts.
    ("I love this {weather}!", "It does have something."),
    ("I like your answer.", "Thank you."),
    ("I hate waiting {number} minutes for a table.", "Who does not."),
    ("I need to buy milk.", "Shall I write a list?"),
    ("I'm going to have {meal} now.", "Enjoy it."),
    ("I always forget that word.", "It will come back."),
    ("I'm in the kitchen, the {weather} is at the window.", "Sounds snug."),
    ("We're out of coffee again.", "A disaster."),
    ("I have a headache since this {part}.", "I hope it passes."),
    ("I want to watch {show} tonight.", "Good idea."),
    ("I prefer the second one.", "The second it is."),
    ("I think the {part} is my time.", "It suits you."),
    ("My keys are gone. Found them!", "That was quick."),
    ("I have to leave in {number} minutes.", "Then let us be brief."),
    ("Don't be so formal.", "Gladly."),
    ("I'm reading about {topic}.", "And, is it any good?"),
    ("We are going for a walk before the {weather} comes.", "Have fun."),
    ("I bought {meal} on the way home.", "Well deserved."),
    ("My train leaves at {number} past.", "You will make it."),
    ("The build is slow today, {number} seconds.", "Perhaps the machine is busy."),
)

# Worded like facts, but not facts.
TRAPS: tuple[tuple[str, str], ...] = (
    ("Suppose I lived in {far}. What would rent cost?", "A lot, I would think."),
    ("Maybe I should move to {far}. Or take that job at {work}.", "Both would be a big step."),
    ('She said: "I live in {far} and I hate {topic}" and left.', "How strange."),
    ("I just love it when the train is {number} minutes late. Not.", "I can imagine."),
    ("Translate into French: My name is Igor and I work at {work}.", "Je m'appelle Igor."),
    ("The song goes: I live in {far} by the sea.", "I do not know it."),
    ("What is a good name for a character who lives in {far}?", "Perhaps Orla."),
    ("> I work at {work} and I love {topic}\n\nThat is from a forum, what do you make of it?", "It may well be true."),
    ("```python\n# never use globals\nhome = 'I live in {far}'\n```\nWhat does this print?", "Nothing at all."),
    ("As if I would ever work at {work} again!", "Understood."),
    ("My computer lives in the closet and works for me all {part}.", "A loyal machine."),
    ("You must be tired, it must be late in {far}.", "I do not tire."),
    ("If I had a dog I would call it {far}.", "A fine name."),
    ("Is it true that people who live in {far} love {topic}?", "Some of them do."),
    ("Pretend you are a pirate. My name is Captain {far}.", "Arr."),
    ("I feel like {meal} tonight. It looks like {weather}.", "Enjoy it."),
    ("We haven't decided on anything yet.", "There is time."),
    ("How do I fix a slow page?", "You could fix it by caching the result. Shall I?"),
    ("I wish I worked at {work}.", "Perhaps one day."),
    ("My boss wants everyone to love {topic}.", "An unusual wish."),
)

# Tool output teaches nothing, whatever it says.
LISTINGS: tuple[tuple[str, str], ...] = (
    ("ls src", "main.py\nerror_handler.py\nmust_not_delete_{number}.txt"),
    ("grep -rn TODO src", "src/a.py:{number}: # TODO never use eval here\nsrc/b.py:9: # we decided to remove this"),
    ("cat README.md", "# Readme {number}\nAlways wear a helmet. I live in {far}."),
    ("git log -3", "fix: import failed because of {topic}\nfeat: prefer {topic}\nchore: bump to {number}"),
)
