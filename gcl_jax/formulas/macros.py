"""Commands that math-core does not know, in terms of those it knows.

Mostly the texvc dialect of Wikipedia (MediaWiki's `texvcjs`), the rest what formulas of Wikipedia
and NTCIR-12 use. The dots are here because math-core writes `\\ldots` as three full stops.
"""
# ruff: noqa: RUF001 (mathematical signs)

from gcl_jax.formulas.symbols import words

TEXVC = {
    "alef": r"\aleph",
    "alefsym": r"\aleph",
    "and": r"\land",
    "ang": r"\angle",
    "bold": r"\mathbf",
    "bull": r"\bullet",
    "C": r"\mathbb{C}",
    "clubs": r"\clubsuit",
    "cnums": r"\mathbb{C}",
    "Complex": r"\mathbb{C}",
    "Dagger": r"\ddagger",
    "dArr": r"\Downarrow",
    "Darr": r"\Downarrow",
    "darr": r"\downarrow",
    "diamonds": r"\diamondsuit",
    "empty": r"\emptyset",
    "exist": r"\exists",
    "H": r"\mathbb{H}",
    "harr": r"\leftrightarrow",
    "hArr": r"\Leftrightarrow",
    "Harr": r"\Leftrightarrow",
    "hearts": r"\heartsuit",
    "image": r"\Im",
    "infin": r"\infty",
    "isin": r"\in",
    "lang": r"\langle",
    "larr": r"\leftarrow",
    "lArr": r"\Leftarrow",
    "Larr": r"\Leftarrow",
    "lrarr": r"\leftrightarrow",
    "lrArr": r"\Leftrightarrow",
    "Lrarr": r"\Leftrightarrow",
    "N": r"\mathbb{N}",
    "natnums": r"\mathbb{N}",
    "O": r"\emptyset",
    "or": r"\lor",
    "part": r"\partial",
    "plusmn": r"\pm",
    "Q": r"\mathbb{Q}",
    "R": r"\mathbb{R}",
    "rang": r"\rangle",
    "rarr": r"\rightarrow",
    "rArr": r"\Rightarrow",
    "Rarr": r"\Rightarrow",
    "real": r"\Re",
    "reals": r"\mathbb{R}",
    "Reals": r"\mathbb{R}",
    "sdot": r"\cdot",
    "sect": "§",
    "sgn": r"\operatorname{sgn}",
    "spades": r"\spadesuit",
    "sub": r"\subset",
    "sube": r"\subseteq",
    "supe": r"\supseteq",
    "thetasym": r"\vartheta",
    "uArr": r"\Uparrow",
    "Uarr": r"\Uparrow",
    "uarr": r"\uparrow",
    "weierp": r"\wp",
    "Z": r"\mathbb{Z}",
}

LETTERS = {
    name: rf"\mathrm{{{letter}}}"
    for name, letter in zip(
        words("Alpha Beta Epsilon Zeta Eta Iota Kappa Mu Nu Omicron Rho Tau Chi"),
        "ΑΒΕΖΗΙΚΜΝΟΡΤΧ",
        strict=True,
    )
} | {"omicron": "ο", "AA": r"\mathrm{Å}"}

OPERATORS = {
    name: rf"\operatorname{{{name}}}"
    for name in words(
        "arccot arcsec arccsc arsinh arcosh artanh arcoth arcsinh arccosh arctanh sech "
        "csch argmax argmin tg ctg"
    )
} | {
    "varinjlim": r"\operatorname{inj lim}",
    "varprojlim": r"\operatorname{proj lim}",
    "varliminf": r"\liminf",
    "varlimsup": r"\limsup",
}

DOTS = dict.fromkeys(["ldots", "dots", "dotsc", "dotso"], "…") | dict.fromkeys(
    ["cdots", "dotsb", "dotsm", "dotsi"], "⋯"
)

OTHER = {
    "centerdot": r"\cdot",
    "smallsetminus": r"\setminus",
    "hbox": r"\text{#1}",
    "mbox": r"\text{#1}",
    "emph": r"\text{#1}",
    "pagecolor": "",
    "nonumber": "",
    "notag": "",
    "stackbin": r"\overset{#1}{#2}",
    "lbrack": "[",
    "rbrack": "]",
    "ensuremath": "#1",
    "iff": r"\Leftrightarrow",
}

MACROS = TEXVC | LETTERS | OPERATORS | DOTS | OTHER
