"""English words that are no label of a picture.

Function words (articles, pronouns, prepositions, conjunctions, auxiliaries and their contractions), numerals, and
adverbs of place and degree. Nouns, verbs and adjectives are none, however common.
"""

_WORDS = """
a an the this that these those some any each every either neither both all another other others such same own
i me my mine you your yours he him his she her hers it its we us our ours they them their theirs one ones
himself herself itself themselves who whom whose which what someone something
and or but nor so yet if while because although though than as whether where when how why since until unless
about above across after against along alongside amid amidst among amongst around at atop before behind below beneath
beside besides between beyond by despite down during except for from in inside into like near of off on onto out
outside over past per through throughout to toward towards under underneath up upon via with within without
be am is are was were been being do does did done doing have has had having can could may might must shall should
will would isn't aren't wasn't weren't don't doesn't didn't can't couldn't won't wouldn't hasn't haven't hadn't
it's there's that's he's she's they're we're you're what's let's
zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen twenty thirty forty fifty
hundred thousand first second third half dozen several many much few little more most less least lot lots couple
not no none also just only very too quite rather almost even still already again ever never always often once here
there away apart together else well however then now back forth ahead nearby upside next
"""

ENGLISH = frozenset(_WORDS.split())
