"""What signs mean in an operator tree: their labels, and how strongly they bind.

Meanings are those that LaTeXML writes into Content MathML, with the type letters of TangentS: `U!`
where the order of operands does not matter, `O!` where it does, `F!` for functions. A sign without
a meaning is a function named by the sign, `F!normal-→`.
"""
# ruff: noqa: RUF001 (mathematical signs)

from typing import NamedTuple

from gcl_jax.formulas.symbols import words

(
    PUNCTUATION,
    METARELATION,
    RELATION,
    ADDITION,
    PREFIX,
    BIG,
    PRODUCT,
    APPLICATION,
    ARGUMENT,
    DIFFERENTIAL,
) = range(1, 11)
"""How strongly operators bind, the weakest first; `ARGUMENT` is a product in `sin 2x`."""


class Operator(NamedTuple):
    """An operator sign.

    Attributes:
        label: in the operator tree.
        strength: `METARELATION` (between formulas), `RELATION`, `ADDITION`, `PRODUCT` between
            operands; `PREFIX`, `BIG`, `APPLICATION` before one; `PUNCTUATION`.
    """

    label: str
    strength: int


def _table(strength: int, labels: dict[str, str]) -> dict[str, Operator]:
    """Operators of one strength, from label -> its signs."""
    return {
        sign: Operator(label, strength) for label, signs in labels.items() for sign in signs.split()
    }


_RELATIONS = {
    "U!eq": "=",
    "U!neq": "≠",
    "U!approx": "≅ ≈",
    "U!equivalent": "≡",
    "O!lt": "<",
    "O!gt": ">",
    "O!leq": "≤ ≦ ⩽ ⪕",
    "O!geq": "≥ ≧ ⩾ ⪖",
    "O!in": "∈",
    "O!notin": "∉",
    "O!contains": "∋",
    "O!not-contains": "∌ ⋫",
    "O!not-contains-nor-equals": "⋭",
    "O!subset": "⊂ ⊆ ⫅",
    "O!prsubset": "⊊ ⫋",
    "O!not-subset-of": "⊄",
    "O!not-subset-of-nor-equals": "⊈ ⫅̸",
    "O!superset-of": "⊃",
    "O!superset-of-or-equals": "⊇ ⫆",
    "O!superset-of-and-not-equals": "⊋ ⫌",
    "O!not-superset-of": "⊅",
    "O!not-superset-of-nor-equals": "⊉ ⫆̸",
    "O!double-subset-of": "⋐",
    "O!double-superset-of": "⋑",
    "O!square-image-of": "⊏",
    "O!square-image-of-or-equals": "⊑",
    "O!square-original-of": "⊐",
    "O!square-original-of-or-equals": "⊒",
    "O!subgroup-of": "⊲",
    "O!not-subgroup-of": "⋪",
    "O!not-subgroup-of-nor-equals": "⋬",
    "O!similar-to": "∼",
    "O!not-similar-to": "≁",
    "O!similar-to-or-equals": "≃",
    "O!not-similar-to-or-equals": "≄",
    "O!not-approximately-equals": "≇ ≉",
    "O!approximately-equals-or-equals": "≊",
    "O!approximately-equals-or-image-of": "≒",
    "O!image-of-or-approximately-equals": "≓",
    "O!approaches-limit": "≐",
    "O!asymptotically-equals": "≍",
    "O!geometrically-equals": "≑ ≎",
    "O!difference-between": "≏",
    "O!not-equivalent-to": "≢",
    "O!proportional-to": "∝",
    "O!much-less-than": "≪",
    "O!much-greater-than": "≫",
    "O!very-much-less-than": "⋘",
    "O!very-much-greater-than": "⋙",
    "O!not-less-than": "≮",
    "O!not-greater-than": "≯",
    "O!not-less-than-or-equals": "≰",
    "O!not-greater-than-or-equals": "≱",
    "O!less-than-and-not-equals": "≨ ⪇",
    "O!greater-than-and-not-equals": "≩ ⪈",
    "O!less-than-or-similar-to": "≲",
    "O!greater-than-or-equivalent-to": "≳",
    "O!less-than-or-approximately-equals": "⪅",
    "O!greater-than-or-approximately-equals": "⪆",
    "O!less-than-or-greater-than": "≶",
    "O!greater-than-or-less-than": "≷",
    "O!less-than-or-equals-or-greater-than": "⋚ ⪋",
    "O!greater-than-or-equals-or-less-than": "⋛ ⪌",
    "O!precedes": "≺",
    "O!precedes-or-equals": "≼ ⪯",
    "O!precedes-or-equivalent-to": "≾",
    "O!not-precedes": "⊀",
    "O!succeeds": "≻",
    "O!succeeds-or-equals": "≽ ⪰",
    "O!succeeds-or-equivalent-to": "≿",
    "O!not-succeeds": "⊁",
    "O!equals-or-preceeds": "⋞",
    "O!equals-or-succeeds": "⋟",
    "O!perpendicular-to": "⊥",
    "O!parallel-to": "∥",
    "O!not-parallel-to": "∦",
    "O!divides": "∣",
    "O!not-divides": "∤",
    "O!assign": ":= ≔",
    "O!maps-to": "↦",
    "O!between": "≬",
}
_METARELATIONS = {
    "O!implies": "⟹",
    "O!iff": "⇔",
    "O!therefore": "∴",
    "O!because": "∵",
    "O!proves": "⊢",
    "O!not-proves": "⊬",
    "O!does-not-prove": "⊣",
    "O!models": "⊧",
    "O!forces": "⊩",
}
_OTHER_METARELATIONS = ": ⇒ ⇐ ⟺ ⟸ ⊨ ⊭ ⊪ ⊯"
# Relations without a name, most of them arrows.
_OTHER_RELATIONS = (
    "→ ← ↔ ⟶ ⟵ ⟷ ⟼ ↛ ↚ ↮ ↝ ↠ ↞ ↣ ↢ ↪ ↩ ⇀ ⇁ ↼ ↽ ⇌ ⇋ ⇄ ⇆ ⇉ ⇇ ⇏ ⇍ ⇎ ⇛ ⇚ ↑ ↓ ↕ ⇑ ⇓ ⇕ ↗ ↘ ↙ ↖ ⊸ "
    "≜ ≗ ≖ ∽ ≂ ≌ ⋖ ⋗ ⌢ ⌣ ⋈ △ ◁ ▷ ⊴ ⊵ ∷"
)
_ADDITIONS = {
    "U!plus": "+",
    "O!minus": "-",
    "O!plus-or-minus": "±",
    "O!minus-or-plus": "∓",
    "U!union": "∪",
    "U!intersect": "∩",
    "U!or": "∨ ⋎",
    "U!and": "∧ ⋏",
    "O!exclusive-or": "⊻",
    "O!not-and": "⊼",
    "O!setdiff": "∖",
    "O!direct-sum": "⊕",
    "O!symmetric-difference": "⊖",
    "O!square-union": "⊔",
    "O!square-intersection": "⊓",
    "O!double-union": "⋓",
    "O!double-intersection": "⋒",
}
_PRODUCTS = {
    "U!times": "× *",
    "O!divide": "/ ÷",
    "O!compose": "∘",
    "O!tensor-product": "⊗",
    "O!direct-product": "⊙",
    "O!left-normal-factor-semidirect-product": "⋉",
    "O!right-normal-factor-semidirect-product": "⋊",
    "O!left-semidirect-product": "⋋",
    "O!right-semidirect-product": "⋌",
    "O!rem": "mod",
}
_OTHER_PRODUCTS = "⋅ ∙ • ⋆ ⊘ ⊚ ⊛ ⊝ ⊞ ⊟ ⊠ ⊡ ⊎ ≀ ⋄ ⋇ ∔ ⨿ †  ‡ ○ ⊺ · ⋊"
_BIG = {
    "O!sum": "∑",
    "O!product": "∏",
    "O!coproduct": "∐",
    "O!int": "∫",
    "O!double-integral": "∬",
    "O!triple-integral": "∭",
    "O!quadruple-integral": "⨌",
    "O!contour-integral": "∮",
    "U!union": "⋃",
    "U!intersect": "⋂",
    "U!or": "⋁",
    "U!and": "⋀",
}
_PREFIXES = {"O!forall": "∀", "O!exists": "∃", "O!not-exists": "∄", "O!not": "¬"}

SIGNS: dict[str, Operator] = (
    {sign: Operator(f"F!normal-{sign}", METARELATION) for sign in _OTHER_METARELATIONS.split()}
    | _table(METARELATION, _METARELATIONS)
    | {sign: Operator(f"F!normal-{sign}", RELATION) for sign in _OTHER_RELATIONS.split()}
    | {sign: Operator(f"F!normal-{sign}", PRODUCT) for sign in _OTHER_PRODUCTS.split()}
    | _table(RELATION, _RELATIONS)
    | _table(ADDITION, _ADDITIONS)
    | _table(PRODUCT, _PRODUCTS)
    | _table(BIG, _BIG)
    | _table(PREFIX, _PREFIXES)
    | _table(APPLICATION, {"O!partialdiff": "∂", "F!normal-∇": "∇"})
    | {sign: Operator(f"V!normal-{sign}", PUNCTUATION) for sign in ("&comma;", ";", ".")}
)
"""Sign -> operator."""

UNARY = frozenset(["+", "-", "±", "∓"])
"""Signs between operands that also stand before one."""

FUNCTIONS: dict[str, str] = {
    name: f"F!{name}"
    for name in words(
        "sin cos tan cot sec csc sinh cosh tanh sech csch arccos arccot arccsc arcsec "
        "arcsin arctan arccosh arccoth arccsch arcsech arcsinh arctanh exp log ln arg gcd "
        "lcm min max coth"
    )
} | {
    "lim": "O!limit",
    "inf": "O!infimum",
    "sup": "O!supremum",
    "lim inf": "O!limit-infimum",
    "lim sup": "O!limit-supremum",
    "det": "F!det",
    "dim": "O!dimension",
    "deg": "O!degree",
    "ker": "O!kernel",
    "hom": "F!hom",
    "lg": "F!lg",
    "Pr": "F!Pr",
    "ℜ": "F!real",
    "ℑ": "F!imaginary",
}
"""Names of functions -> labels. They take what follows as argument, with or without fences."""

LIMITS = frozenset(["lim", "inf", "sup", "max", "min"]) | {"lim inf", "lim sup"}
"""Functions that take a whole product, like sums."""

CONSTANTS = {"∞": "C!infinity", "∅": "C!emptyset", "ℏ": "C!hbar", "⊤": "O!top", "⊥": "O!bottom"}
"""Identifiers with a meaning of their own."""

FENCES = {
    "||": "F!abs",
    "∥∥": "O!norm",
    "⌊⌋": "F!floor",
    "⌈⌉": "F!ceiling",
    "|⟩": "O!ket",
    "⟨|": "O!bra",
}
"""Pairs of fences that are functions of what is between them."""

FLAT_FENCES = {"⌊": "⌋", "⌈": "⌉", "⟨": "⟩", "⌜": "⌝", "⌞": "⌟", "⟦": "⟧"}
"""Fences that are plain signs in a layout tree and a group in an operator tree."""


def content_label(sign: str) -> str:
    """Label of a sign that stands for itself, without operands."""
    operator = SIGNS.get(sign)
    if operator is None:
        return f"V!normal-{sign}"
    return f"V!{operator.label[2:]}" if operator.label[:9] == "F!normal-" else operator.label
