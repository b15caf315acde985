"""Closed word lists of the rules."""

from __future__ import annotations

from collections.abc import Mapping


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def any_of(words: frozenset[str]) -> str:
    """Return a pattern for any of the words, longest first."""
    return "(?:" + "|".join(sorted(words, key=lambda word: (-len(word), word))) + ")"


# Words for family and other roles, and their normal form.
RELATIONS: Mapping[str, str] = {
    **{
        word: word
        for word in """sister brother wife husband daughter son father mother grandmother grandfather cousin
        uncle aunt nephew niece partner boyfriend girlfriend fiancé fiancée boss manager colleague coworker neighbour
        roommate flatmate friend landlord landlady teacher mentor stepfather stepmother stepson stepdaughter spouse
        twin grandson granddaughter godson goddaughter child baby mother-in-law father-in-law sister-in-law
        brother-in-law therapist assistant coach tutor""".split()
    },
    **dict.fromkeys(("mum", "mom", "mommy", "mama", "ma"), "mother"),
    **dict.fromkeys(("dad", "daddy", "papa"), "father"),
    **dict.fromkeys(("gran", "grandma", "granny", "nana"), "grandmother"),
    **dict.fromkeys(("granddad", "grandpa", "grandad"), "grandfather"),
    **dict.fromkeys(("auntie", "aunty"), "aunt"),
    **dict.fromkeys(("hubby", "hubs"), "husband"),
    **dict.fromkeys(("sis",), "sister"),
    **dict.fromkeys(("bro",), "brother"),
    **dict.fromkeys(("bf",), "boyfriend"),
    **dict.fromkeys(("gf",), "girlfriend"),
    **dict.fromkeys(("bestie", "mate", "buddy", "pal"), "friend"),
    **dict.fromkeys(("neighbor",), "neighbour"),
    **dict.fromkeys(("fiance",), "fiancé"),
    **dict.fromkeys(("fiancee",), "fiancée"),
    **dict.fromkeys(("kid",), "child"),
    **dict.fromkeys(("co-worker",), "coworker"),
    **{f"{who} in law": f"{who}-in-law" for who in ("mother", "father", "sister", "brother")},
}
PETS = _words(
    """dog cat puppy kitten rabbit hamster parrot horse pony goldfish fish turtle tortoise snake lizard bird budgie
    canary ferret greyhound labrador poodle beagle terrier husky dachshund retriever corgi collie spaniel pug bulldog
    chihuahua shepherd tabby gecko hen chicken goat donkey"""
)
PET_NAMES = _words(
    """archie bailey bandit bella biscuit bruno buddy buster charlie chester cleo coco cookie daisy dexter duke fluffy
    ginger gizmo gus hazel honey jasper kiki kitty leo loki lola louie lucky lucy lulu luna maggie marley max mia mickey
    milo minnie mittens mochi moose muffin nala oliver ollie oreo oscar patch peanut pepper percy piper pluto poppy
    princess pumpkin rex riley rocky romeo rosie roxy ruby rufus rusty sadie salem sam sammy scout shadow simba smokey
    snowball socks sophie spot stella sushi teddy tiger tigger toby waffles whiskers willow winston ziggy zeus zoe"""
)
_ACQUAINTED = _words(
    "friend boss manager colleague coworker neighbour roommate flatmate landlord landlady teacher mentor therapist"
    " assistant coach tutor baby"
)
KIN = _words(
    "sisters brothers sons daughters kids children siblings cousins nephews nieces grandchildren grandkids twins aunts"
    " uncles grandsons granddaughters boys girls stepkids dogs cats rabbits hens chickens horses parrots goldfish"
) | (frozenset(RELATIONS.values()) - _ACQUAINTED)
FEMALE = _words(
    """sister wife daughter mother grandmother aunt niece girlfriend fiancée stepmother stepdaughter granddaughter
    goddaughter landlady mother-in-law sister-in-law"""
)
MALE = _words(
    """brother husband son father grandfather uncle nephew boyfriend fiancé stepfather stepson grandson godson landlord
    father-in-law brother-in-law"""
)
# Single-valued roles. Of the others there may be several: a fact about one does not supersede one about another.
SINGLE = _words("wife husband spouse partner boyfriend girlfriend fiancé fiancée mother father boss landlord landlady")
COUNTS = r"(?:\d{1,2}|a|an|one|two|three|four|five|six|seven|eight|nine|ten|several|some)"

OCCUPATIONS = _words(
    """accountant actor actress administrator advisor analyst animator archaeologist architect archivist artist
    astronomer attorney auditor author baker banker barber barista bartender beekeeper biologist blacksmith bookkeeper
    botanist brewer broker builder butcher buyer carpenter cashier ceo cfo chef chemist choreographer civil-servant
    cleaner clerk coach cobbler columnist comedian composer conductor consultant contractor controller cook coordinator
    copywriter counselor counsellor courier cto curator dancer dentist designer detective developer dietitian diplomat
    director diver dj doctor dressmaker driver ecologist economist editor electrician engineer entrepreneur
    environmentalist epidemiologist executive farmer filmmaker firefighter fisherman florist founder freelancer gardener
    geologist geographer glazier goldsmith guard guide gp hairdresser historian host hygienist illustrator inspector
    instructor intern interpreter investigator investor jeweller jeweler journalist judge lab-technician lawyer lecturer
    librarian lifeguard linguist locksmith logistician machinist magistrate manager mathematician mechanic mechanist
    mediator midwife miner minister model musician nanny neurologist novelist nurse nutritionist officer operator
    optician optometrist osteopath painter paralegal paramedic pastor pathologist pediatrician pensioner pharmacist
    philosopher photographer physician physicist physiotherapist pianist pilot planner plumber poet policeman
    policewoman politician porter postman potter practitioner priest principal producer professor programmer
    psychiatrist psychologist publisher radiographer radiologist ranger realtor receptionist recruiter referee reporter
    representative researcher retiree roofer sailor salesman salesperson saleswoman scientist screenwriter sculptor
    seamstress secretary sergeant singer social-worker soldier solicitor specialist statistician steward stewardess
    strategist student stylist sub-editor superintendent supervisor surgeon surveyor sysadmin tailor teacher technician
    technologist therapist trader trainer translator treasurer tutor undertaker upholsterer vet
    veterinarian videographer
    violinist dev swe
    waiter waitress warden watchmaker weaver welder writer zoologist lead head"""
)
DEMONYMS = _words(
    """american argentinian argentine armenian australian austrian belgian bolivian brazilian british bulgarian canadian
    chilean chinese colombian croatian cuban czech danish dutch ecuadorian egyptian english estonian ethiopian finnish
    french georgian german ghanaian greek hungarian icelandic indian indonesian iranian iraqi irish israeli italian
    jamaican japanese jordanian kenyan korean latvian lebanese lithuanian malaysian mexican mongolian moroccan nepali
    nigerian norwegian pakistani peruvian polish portuguese romanian russian scottish senegalese serbian slovak
    slovenian somali spanish swedish swiss syrian taiwanese thai tunisian turkish ugandan ukrainian uruguayan
    venezuelan vietnamese welsh zimbabwean"""
)
LANGUAGES = (DEMONYMS - {"american", "australian", "canadian", "mexican", "swiss", "indian", "british"}) | _words(
    """arabic mandarin cantonese hindi urdu bengali tamil telugu farsi persian hebrew swahili yoruba catalan basque
    galician esperanto latin tagalog malay punjabi marathi gujarati afrikaans zulu amharic quechua kurdish flemish
    gaelic"""
)
DIETS = _words(
    "vegan vegetarian veggie pescatarian pescetarian flexitarian keto paleo kosher halal gluten-free teetotal"
    " celiac coeliac"
)
CONDITIONS = _words(
    """asthma diabetes adhd autism dyslexia epilepsy migraines migraine arthritis hypertension anxiety depression
    insomnia tinnitus eczema cancer lupus lymphoma leukemia leukaemia hypothyroidism pcos crohn's parkinson's psoriasis
    celiac coeliac anemia anaemia ibs endometriosis ptsd glaucoma vertigo ocd gout fibromyalgia osteoporosis
    dementia alzheimer's sciatica dyscalculia dyspraxia narcolepsy hyperthyroidism"""
) | {
    "high blood pressure",
    "low blood pressure",
    "high cholesterol",
    "heart disease",
    "kidney disease",
    "hay fever",
    "sleep apnea",
    "sleep apnoea",
    "chronic pain",
    "bipolar disorder",
    "long covid",
}
MEDICINES = _words(
    """insulin metformin warfarin antidepressants statins beta-blockers ssris lithium ritalin adderall methotrexate
    levothyroxine thyroxine immunosuppressants anticoagulants steroids antihistamines prednisone sertraline xarelto
    eliquis hormones testosterone estrogen"""
) | {"blood thinners", "blood pressure medication", "beta blockers", "birth control", "the pill", "thyroid medication"}
# Workplaces without a name.
WORKPLACES = _words(
    """pharmacy school hospital bakery restaurant bank library factory warehouse hotel bar pub clinic lab laboratory
    kindergarten nursery museum garage salon supermarket bookshop bookstore brewery university startup agency
    hospice gym shop store office theatre theater studio butcher's cafe café prison post-office call-centre
    laundrette vineyard nonprofit charity"""
) | {
    *(
        f"{what} {where}"
        for what in ("call", "distribution", "data", "garden", "shopping")
        for where in ("centre", "center")
    ),
    *(f"{what} school" for what in ("primary", "secondary", "high", "middle")),
    "law firm",
    "care home",
    "nursing home",
    "coffee shop",
    "post office",
    "petrol station",
    "gas station",
}
HOBBIES = _words(
    """guitar piano drums violin cello bass flute saxophone trumpet ukulele harp banjo clarinet tennis chess football
    soccer basketball volleyball badminton squash golf rugby hockey cricket baseball handball padel bridge go poker
    accordion organ mandolin viola oboe trombone harmonica bouzouki"""
)
BELONGINGS = _words(
    """car house apartment flat condo bike bicycle motorcycle motorbike boat van camper caravan laptop phone camera
    guitar piano cottage cabin farm land telescope drone violin scooter tractor tesla ebike e-bike kayak canoe"""
)
# Tools that a team moves to, not places to live.
PRODUCTS = _words(
    """airtable android ansible asana aurora aws azure basecamp bazel bigquery bitbucket bootstrap bun cassandra chrome
    circleci clickhouse cloudflare confluence cosmos cursor databricks datadog deno discord django docker dropbox
    dynamodb elasticsearch elixir emacs excel express fastapi figma firebase firefox flask flutter gatsby gcp git gitea
    github gitlab gmail golang gradle grafana graphql grpc helm heroku html htmx hubspot ios java javascript jenkins
    jest jira jupyter kafka kotlin kubernetes lambda laravel linear linux looker mailchimp mariadb maven mercurial
    mongo mongodb mysql neovim netlify nextjs nginx node nodejs notion npm oauth obsidian office okta openshift oracle
    outlook pandas perl php playwright pnpm podman poetry polars postgres postgresql poetry prisma prometheus pulumi
    pytest python pytorch rabbitmq rails react redis redshift remix rest ruby rust saas salesforce sap scala selenium
    sentry sharepoint shopify slack snowflake solid spark splunk spring sqlite stripe subversion supabase svelte
    sveltekit svn swift tableau tailwind teams telegram terraform trello trpc typescript ubuntu unity uv vault vercel
    vim vite vitest vscode vue webpack whatsapp windows wordpress yarn zed zendesk zod zoom"""
)
# Places written in capitals only.
SHORT_PLACES = _words("uk us usa uae nyc la dc sf nz hk eu")
# Words at the start of a sentence that are not names.
NO_NAMES = _words(
    """a about actually after again all also although always an and another any anyway are as at basically be because
    been before besides both but by can could did do does done every everybody everyone everything finally first for
    from get getting good got great had happy has have he hello her here hey hi his hmm how however i if in indeed is
    it its just last lately let lets like lol look love make many maybe me mine more most mr mrs ms much my neither
    never next nice no nobody none nope not nothing now of oh ok okay on once one only or our perhaps please probably
    python quite rather really recently right said same say says see she should since so some somebody someone something
    sometimes soon sorry still such sure talking thank thanks that the their them then there these they thing things
    this those though thus to today tomorrow tonight too tried turns two unfortunately unlike until us use using usually
    very was we well were what whatever when where whether which while who whose why will with without work would wow
    yeah yep yes yesterday yet you your monday tuesday wednesday thursday friday saturday sunday january february march
    april may june july august september october november december god jesus christmas easter english internet google
    github docker kubernetes linux windows postgres sqlite redis kafka java rust microsoft apple amazon api ci cd sql
    correction note remember fyi btw ps dear hope kidding bit half living working moving imagine suppose pretend
    running adding removing upgrading setting changing switching replacing nowadays congrats
    congratulations kindly whoever whatever apparently guys folks dude bro man""".lower()
)


# Closed word lists that tell kinds of names apart


# Common given names that are not everyday words: enough to tell most people from most things.
GIVEN_NAMES = _words(
    """aaron abby abdul abigail adam adele adrian agnes ahmed aisha alan albert alejandro alessandro alex alexander
    alexandra alexis alfred ali alice alicia alina allison amanda amelia amina amir amy ana anastasia andre andrea
    andreas andrew andy angela angelica anita ann anna anne annie anthony antonio anya ariana ariel arjun arthur ashley
    astrid audrey austin ava barbara beatrice ben benjamin bernard beth betty bianca bill blake bob bonnie boris brad
    brandon brenda brendan brian bridget bruce bruno bryan caleb cameron camila carl carla carlos carmen carol caroline
    carolyn catherine cathy cecilia celine charles charlie charlotte chen chloe chris christian christina christine
    christopher cindy claire clara clarissa claudia clara cody colin connor constance craig cristina cynthia daisuke
    damian dan dana daniel daniela danielle danny daphne dave david deborah debra denise dennis derek diana diane diego
    dmitri dominic donald donna dora doris dorothy doug douglas duncan dylan eddie edith edward edwin eileen elaine
    eleanor elena eli elias elijah elisa elizabeth ella ellen ellie elliot elsa emily emma enrique eric erica erik erin
    ernest esther ethan eugene eva evan evelyn fatima felicia felix fernando finn fiona florence frances francesca
    francis francisco frank fred frederick gabriel gabriela gary gavin geoffrey george georgia gerald gianna gilbert
    giovanni giulia gloria gordon greg gregory greta guillermo gustavo hanna hannah hans harold harriet harry hassan
    hector heidi helen helena henrik henry herbert hiroshi howard hugo ian ibrahim igor ines ingrid irene isaac isabel
    isabella isla ivan jack jackie jackson jacob jacqueline jake james jamie jan jane janet janice jasmine jason javier
    jean jeff jeffrey jenna jennifer jenny jeremy jerry jesse jessica jessie jill jim jimmy joan joanna joe joel johan
    johanna john johnny jon jonas jonathan jose josef joseph josephine josh joshua joyce juan juanita judith judy julia
    julian juliana julie juliet julio justin kai karen karin karl karla kate katherine kathleen kathryn katie katrina
    kayla keith kelly ken kenji kenneth kevin kim kimberly kiran klaus kristen kristin kumar kurt kyle lara larissa
    larry lars laura lauren laurent lawrence leah lena leo leon leonard leonardo leroy leslie lewis liam lillian linda
    lindsay lisa logan lois lorenzo lorraine louis louise lucas lucia luis luisa luka lukas lydia lynn mabel madison
    magnus maja malcolm marcel marco marcus margaret margarita maria mariam mariana marie marilyn marina mario marisa
    marissa marjorie marta martha martin martina marvin mary mateo mathieu matt matteo matthew maureen maurice max maya
    megan mei melanie melinda melissa mercedes meredith mia michael michel michelle miguel mike mila mildred milo
    miranda miriam mitchell mohamed mohammed molly monica monique morgan muhammad nadia nancy naomi natalia natalie
    natasha nate nathan nathaniel neil nicholas nick nicola nicolas nicole nigel nikita nikolai nils nina noah noel nora
    norma norman olga oliver olivia omar oscar otto owen pablo pamela paolo patricia patrick paul paula pauline pavel
    pedro peggy penelope peter phil philip phoebe phyllis pierre piotr priya quentin rachel rafael raj ralph ramon
    randy raphael rashid raul ravi raymond rebecca regina renata rene rhonda ricardo richard rick ricky rita robert
    roberta roberto robin rodrigo roger roland ronald ronnie rosa rosalie rosemary ross roxanne ruben rudolf russell
    ruth ryan sabrina sally sam samantha samir samuel sandra sanjay sara sarah sasha scott sean sebastian sergei sergio
    seth shannon sharon shaun shawn sheila shelby shirley sidney silvia simon simone sofia sonia sonja sophia sophie
    stacy stanley stefan stefanie stella stephanie stephen steve steven stuart susan susanna susanne svetlana sven
    sylvia takeshi tamara tanya tara tatiana ted teresa terrence terry theodore theresa thomas tiffany tim timothy tina
    tobias todd tom tomas tommy tony tracy travis trevor tyler ursula valentina valerie vanessa veronica vicky victor
    victoria vincent viola virginia vivian vladimir walter wanda wayne wendy wesley wilhelm willem william xavier yasmin
    yolanda yuki yusuf yvette yvonne zachary zoe"""
)
PLACES = _words(
    """africa alaska amsterdam antarctica argentina arizona asia athens atlanta australia austria baltimore bangkok
    barcelona beijing belgium berlin bogota boston brazil brighton britain brooklyn brussels bucharest budapest
    california cambodia canada caribbean chicago chile china colombia colorado connecticut copenhagen croatia cuba
    dallas denmark denver detroit dubai dublin edinburgh egypt england ethiopia europe finland florida france frankfurt
    geneva germany ghana glasgow greece hamburg hanoi hawaii helsinki houston hungary iceland idaho illinois india
    indiana indonesia iowa iran iraq ireland israel istanbul italy jamaica japan jerusalem kansas kentucky kenya
    krakow kyoto lagos leeds lisbon liverpool london louisiana lyon madrid maine malaysia manchester manhattan maryland
    massachusetts melbourne memphis mexico miami michigan milan minneapolis minnesota mississippi missouri montana
    montreal morocco moscow mumbai munich nairobi naples nashville nebraska nepal netherlands nevada nigeria norway ohio
    oklahoma oregon orlando osaka oslo ottawa oxford pakistan paris pennsylvania peru philadelphia philippines phoenix
    pittsburgh poland porto portland portugal prague quebec rome romania russia sacramento scotland seattle serbia
    seoul shanghai singapore slovakia slovenia spain stockholm stuttgart sweden switzerland sydney taiwan tallinn
    tanzania tennessee texas thailand tokyo toronto toulouse tunisia turkey uganda ukraine uruguay usa utah vancouver
    venezuela venice vermont vienna vietnam wales warsaw wisconsin wyoming yorkshire zurich"""
) | {
    *(
        "new york",
        "los angeles",
        "san francisco",
        "san diego",
        "las vegas",
        "new zealand",
        "south africa",
        "costa rica",
    ),
    *("hong kong", "north carolina", "south carolina", "new orleans", "new jersey", "new mexico", "united states"),
    *("united kingdom", "new york city", "saudi arabia", "south korea", "sri lanka", "buenos aires", "rio de janeiro"),
}
ORGANISED = _words(
    """university college school academy institute inc ltd gmbh corp corporation company bank foundation agency group
    association council ministry department hospital clinic church club union society press times post partners labs
    studios studio airlines network federation committee team league"""
)
LOCATED = _words(
    """street avenue road park lake river mountain mountains beach island islands bridge square station airport museum
    cafe café restaurant hotel bay valley city county canyon falls forest national garden gardens library theater
    theatre stadium plaza market hall center centre bar gym coast ocean sea desert trail"""
)
TOOLS = _words(
    """google github docker kubernetes linux windows postgres postgresql sqlite redis kafka java rust python microsoft
    apple amazon typescript javascript react django flask ansible terraform excel slack jira notion git android ios"""
)
# Capitalized words and first words that are not names.
NAMELESS = ((NO_NAMES | DEMONYMS | LANGUAGES) - TOOLS) | _words(
    """absolutely aight alright amazing amen awesome aw aww bye cheers cool cute dang definitely each either else enjoy
    especially eventually ever exactly excited excuse fair fantastic far few fingers fun glad glory goodbye goodness
    gosh gotta guess guys haha hang hear heck help hooray hot huge hurray incredible instead interesting into keep kind
    kinda know kudos later least less long lots lovely loving luckily man meanwhile mostly must myself nah near need
    obviously off oops our ouch out over overall own part people personally plus possibly pretty proud quick regarding
    remember same seeing seems several similarly simply somehow speaking step stay super surely take tell thank
    thankfully there's think thought three thrilled through till together tons totally tough true trust try trying ugh
    um under understood unless up upon usually wait want way welcome went whoa whoever wish wonderful wondering worth
    woah yay yup yo yours yourself
    am pm ok okay tv omg lol fyi btw imo imho diy asap faq eta aka rip ps pps tldr tbh idk brb rsvp dm pic img url http
    https www id no yes mr mrs ms dr prof sir mom mum dad mommy daddy mama papa grandma grandpa granny nana sis bro
    earlier tuesdays mondays wednesdays thursdays fridays saturdays sundays halloween thanksgiving hanukkah"""
)
ENDINGS = ("ing", "ed", "ly", "tion", "ness", "ment", "ful", "able", "ible", "ous", "ive", "est")


def find_role_word(word: str) -> str | None:
    """Return the normal form of a role, such as "mother" for "mom"; None for other words."""
    return RELATIONS.get(word, word if word in PETS else None)
