"""Closed lists of words that tell one kind of name from another."""

from __future__ import annotations

from limpet.knowledge.english.lexicon import DEMONYMS, LANGUAGES, NO_NAMES


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Given names that are common somewhere and no everyday words: enough to tell most people from most things.
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
# Of a sentence's first words and of words in capitals those that name nothing.
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
