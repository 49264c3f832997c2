"""Units of measure by their common names, and the conversion of amounts from one unit to another.

`conversion("lb", "g")` multiplies by 453.59237; of temperatures it adds an offset, too. A name is a symbol (kg, °C), an
English word (pounds), a UCUM code ([lb_av], m/s2), a QUDT unit (unit:KiloGM, as an IRI or its last word), a UN/CEFACT
code (KGM) or a Wikidata item (Q11570). Units are products of powers: km/h, kg·m-3, W h. Currencies are known as such,
without factors.

A name with several common meanings that convert differently (ton, kb) is no name of a unit here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias

Dimension: TypeAlias = tuple[tuple[str, int], ...]  # base quantities and their powers, in order
EXACT_DIGITS = 15  # of an amount, which are the same after a conversion there and back
EXACT_DECIMALS = 9  # of a temperature


class Conversion(NamedTuple):
    """An amount of one unit times `factor`, plus `offset`, is the amount of another.

    There and back is the identity for amounts of up to 15 digits; of temperatures, up to 9 decimals.
    """

    factor: float = 1.0
    offset: float = 0.0

    def of(self, amount: float | Decimal) -> float:
        """The amount in the other unit, without digits that arithmetic makes: 1.1 kg are 1100 g."""
        exact = float(amount) * self.factor + self.offset
        short = float(f"{exact:.{EXACT_DIGITS}g}")
        return short if self.back(short) == float(amount) else exact

    def back(self, amount: float | Decimal) -> float:
        """The amount in the first unit of an amount in the other."""
        exact = (float(amount) - self.offset) / self.factor
        short = float(f"{exact:.{EXACT_DIGITS}g}")
        return round(short, EXACT_DECIMALS) if self.offset else short

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return self == (1.0, 0.0)


@dataclass(frozen=True)
class Unit:
    """A unit: an amount times `factor`, plus `offset`, is the amount in SI base units."""

    dimension: Dimension
    factor: Fraction
    offset: Fraction = Fraction(0)


@lru_cache(4096)
def conversion(source: str, target: str) -> Conversion | None:
    """The conversion from a unit to another; None where either is unknown, or where they measure different quantities."""
    if source == target:
        return Conversion()
    source_unit, target_unit = unit_of(source), unit_of(target)
    if source_unit is None or target_unit is None or source_unit.dimension != target_unit.dimension:
        return None
    try:
        result = Conversion(
            float(source_unit.factor / target_unit.factor),
            float((source_unit.offset - target_unit.offset) / target_unit.factor),
        )
    except OverflowError:
        return None
    return result if result.factor > 0 else None


@lru_cache(4096)
def unit_of(name: str) -> Unit | None:
    """The unit of a name; None where none is known by it."""
    name, word = name.strip(), _last_word(name.strip())
    if not word or len(name) > MAX_NAME_LENGTH:
        return None
    if name.startswith("unit:") or "qudt.org" in name:
        return _of_qudt(word) or _named(word)
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word).lower()  # squareKilometre, of DBpedia
    unit = _named(name) or _named(word) or _product(name) or (_product(spaced) if " " in spaced else None)
    return unit or (_of_qudt(word) if "-" in word or re.match(r"[A-Z][a-z]+[A-Z]", word) else None)


@lru_cache(4096)
def is_currency(name: str) -> bool:
    """Whether a name is a currency's: its ISO 4217 code or its sign."""
    name = _last_word(name.strip())
    return name.removeprefix("CCY_").removeprefix("cur:") in CODES or name in SIGNS


def shown_unit(name: str) -> str:
    """A unit as it is shown: the last word of an IRI, any other name as it is."""
    return _last_word(name) if "://" in name else name


# ---------------------------------------------------------------- names

MAX_NAME_LENGTH = 120  # characters
SIGNS = frozenset(["$", "€", "£", "¥", "₹", "₽", "₩", "₺", "US$", "A$", "C$", "NZ$", "HK$", "R$", "CHF"])
CODES = frozenset([
    "AED", "AFN", "ALL", "AMD", "ANG", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BGN", "BHD", "BIF",
    "BMD", "BND", "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CLP", "CNY", "COP", "CRC",
    "CUP", "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS",
    "GIP", "GMD", "GNF", "GTQ", "GYD", "HKD", "HNL", "HRK", "HTG", "HUF", "IDR", "ILS", "INR", "IQD", "IRR", "ISK",
    "JMD", "JOD", "JPY", "KES", "KGS", "KHR", "KMF", "KPW", "KRW", "KWD", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD",
    "LSL", "LYD", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK", "MXN", "MYR", "MZN",
    "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "OMR", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "PYG", "QAR", "RON",
    "RSD", "RUB", "RWF", "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP", "STN", "SVC",
    "SYP", "SZL", "THB", "TJS", "TMT", "TND", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS",
    "VES", "VND", "VUV", "WST", "XAF", "XCD", "XOF", "XPF", "YER", "ZAR", "ZMW", "ZWL", "DEM", "FRF", "ITL", "ESP",
    "ATS", "NLG", "BEF",
])  # fmt: skip

SYMBOL_PREFIXES = {
    "Y": "1e24", "Z": "1e21", "E": "1e18", "P": "1e15", "T": "1e12", "G": "1e9", "M": "1e6", "k": "1e3", "h": "1e2",
    "da": "10", "d": "0.1", "c": "0.01", "m": "1e-3", "µ": "1e-6", "μ": "1e-6", "u": "1e-6", "n": "1e-9", "p": "1e-12",
    "f": "1e-15",
}  # fmt: skip
WORD_PREFIXES = {
    "peta": "1e15", "tera": "1e12", "giga": "1e9", "mega": "1e6", "kilo": "1e3", "hecto": "1e2", "deca": "10",
    "deci": "0.1", "centi": "0.01", "milli": "1e-3", "micro": "1e-6", "nano": "1e-9", "pico": "1e-12",
}  # fmt: skip
BINARY_PREFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}

# dimension, how many of the SI unit one is, symbols and codes, English words. ~ before a name: it takes prefixes.
# Words are parted by semicolons; a plural is its singular with an s, unless it stands behind a slash.
TABLE: tuple[tuple[str, str, str, str], ...] = (
    ("L", "1", "~m MTR Q11573", "~metre; ~meter"),
    ("L", "0.0254", 'in " ″ [in_i] INH Q218593', "inch/inches"),
    ("L", "0.3048", "ft ' ′ [ft_i] FOT Q3710", "foot/feet"),
    ("L", "0.9144", "yd [yd_i] YRD Q482798", "yard"),
    ("L", "1609.344", "mi [mi_i] SMI Q253276", "mile; statute mile"),
    ("L", "1852", "nmi NM MI_N [nmi_i] NMI Q93318", "nautical mile"),
    ("L", "1e-10", "Å Ao", "angstrom; ångström"),
    ("L", "149597870700", "au AU Q1811", "astronomical unit"),
    ("L", "9460730472580800", "ly LY [ly] Q531", "light year; light-year"),
    ("L", "3.0856775814913673e16", "~pc Q12129", "~parsec"),
    ("M", "0.001", "~g GRM Q41803", "~gram; ~gramme"),
    ("M", "1000", "t TNE TON_Metric Q191118", "tonne; metric ton; metric tonne"),
    ("M", "0.45359237", "lb lbs lbm [lb_av] LBR Q100995", "pound"),
    ("M", "0.028349523125", "oz [oz_av] ONZ Q48013", "ounce"),
    ("M", "0.0311034768", "ozt [oz_tr] APZ", "troy ounce"),
    ("M", "6.35029318", "st [stone_av] STI", "stone/stones"),
    ("M", "0.0002", "ct [car_m] CTM CARAT", "carat"),
    ("M", "1.66053906660e-27", "~Da amu", "dalton"),
    ("T", "1", "~s sec secs SEC Q11574", "~second"),
    ("T", "60", "min mins MIN Q7727", "minute"),
    ("T", "3600", "h hr hrs HUR HR Q25235", "hour"),
    ("T", "86400", "d DAY Q573", "day"),
    ("T", "604800", "wk wks WK WEE Q23387", "week"),
    ("T", "2629800", "mo MO MON Q5151", "month"),
    ("T", "31557600", "a yr yrs YR ANN Q577", "year"),
    ("T", "3155760000", "", "century/centuries"),
    ("K", "1", "~K KEL Q11579", "kelvin"),
    ("K", "1 273.15", "°C ℃ degC Cel CEL DEG_C C Q25267", "degree Celsius/degrees Celsius; Celsius"),
    ("K", "5/9 45967/180", "°F ℉ degF [degF] FAH DEG_F F Q42289", "degree Fahrenheit/degrees Fahrenheit; Fahrenheit"),
    ("K", "5/9", "°R [degR] DEG_R", "degree Rankine/degrees Rankine"),
    ("I", "1", "~A AMP", "~ampere; ~amp"),
    ("N", "1", "~mol MOL", "~mole"),
    ("J", "1", "~cd CD Q83216", "candela"),
    ("D", "8", "~B By BYTE AD Q8799", "~byte"),
    ("D", "8e3", "KB", ""),
    ("D", "1", "~bit BIT Q8805", ""),
    ("A", "1", "~rad RAD", "radian"),
    ("A", "180", "° deg DEG DD Q28390", "degree; degree of arc/degrees of arc"),
    ("A", "10800", "arcmin ARCMIN", "minute of arc/minutes of arc; arcminute"),
    ("A", "648000", "arcsec ARCSEC", "second of arc/seconds of arc; arcsecond"),
    ("", "0.01", "% P1 PERCENT Q11229", "percent/percent; per cent/per cent"),
    ("", "0.001", "‰", "per mille/per mille"),
    ("", "1e-6", "ppm PPM", "part per million/parts per million"),
    ("", "1e-9", "ppb PPB", "part per billion/parts per billion"),
    ("L2", "1e4", "ha HA HAR Q35852", "hectare"),
    ("L2", "4046.8564224", "ac AC [acr_us] ACR Q81292", "acre"),
    ("L3", "1e-3", "~L ~l LTR ℓ Q11582", "~litre; ~liter"),
    ("L3", "0.003785411784", "gal GAL_US [gal_us] GLL", "gallon"),
    ("L3", "0.0000295735295625", "floz fl_oz OZ_VOL_US [foz_us] OZA", "fluid ounce; fl oz/fl oz; fl. oz./fl. oz."),
    ("L3", "0.000473176473", "pt PT_US [pt_us] PT", "pint"),
    ("L3", "0.000946352946", "qt QT_US [qt_us] QT", "quart"),
    ("L3", "0.158987294928", "bbl [bbl_us] BLL", "barrel"),
    ("L T-1", "0.44704", "mph", "mile per hour/miles per hour"),
    ("L T-1", "5/18", "kph kmh KMH Q180154", ""),
    ("L T-1", "463/900", "kn KN kt kts [kn_i] KNT Q128822", "knot"),
    ("T-1", "1", "~Hz HTZ Q39369", "~hertz/~hertz"),
    ("T-1", "1/60", "rpm RPM REV-PER-MIN", "revolution per minute/revolutions per minute"),
    ("M L T-2", "1", "~N NEW", "~newton"),
    ("M L T-2", "4.4482216152605", "lbf [lbf_av] LB_F", "pound-force/pounds-force"),
    ("M L-1 T-2", "1", "~Pa PAL Q44395", "~pascal"),
    ("M L-1 T-2", "1e5", "~bar BAR", "~bar"),
    ("M L-1 T-2", "101325", "atm ATM", "atmosphere; standard atmosphere"),
    ("M L-1 T-2", "6894.757293168361", "psi PSI [psi]", "pound per square inch/pounds per square inch"),
    ("M L-1 T-2", "133.322387415", "mmHg m[Hg]", "millimetre of mercury/millimetres of mercury"),
    ("M L-1 T-2", "20265/152", "Torr torr", "torr"),
    ("M L2 T-2", "1", "~J JOU Q25269", "~joule"),
    ("M L2 T-2", "4.184", "~cal CAL_TH", "~calorie"),
    ("M L2 T-2", "3600", "~Wh", "~watt hour; ~watt-hour"),
    ("M L2 T-2", "1055.05585262", "BTU BTU_IT Btu [Btu_IT]", "British thermal unit"),
    ("M L2 T-2", "1.602176634e-19", "~eV", "~electronvolt; ~electron volt"),
    ("M L2 T-3", "1", "~W WTT Q25236", "~watt"),
    ("M L2 T-3", "745.6998715822702", "hp HP [HP]", "horsepower/horsepower; mechanical horsepower"),
    ("M L2 T-3", "735.49875", "PS cv", "metric horsepower/metric horsepower"),
    ("M L2 T-3 I-1", "1", "~V VLT", "~volt"),
    ("M L2 T-3 I-2", "1", "~Ω ~ohm OHM", "~ohm"),
    ("T I", "3600", "~Ah AMH", "~ampere hour; ~amp hour; ~ampere-hour"),
)
OTHER_NAMES = {  # codes of units with prefixes or powers, and QUDT's names of those that are called otherwise elsewhere
    "Q11570": "kg", "Q828224": "km", "Q174728": "cm", "Q174789": "mm", "Q175821": "µm", "Q25343": "m2", "Q712226": "km2",
    "Q25517": "m3", "Q3241121": "mg", "Q182429": "m/s", "Q732707": "MHz", "Q6982035": "MW", "Q3320608": "kW",
    "Q79735": "MB", "Q79738": "GB", "Q79726": "kB", "Q2332346": "ml", "Q723733": "ms",
    "KGM": "kg", "MGM": "mg", "CMT": "cm", "MMT": "mm", "KMT": "km", "MTK": "m2", "KMK": "km2", "MTQ": "m3", "MLT": "ml",
    "KWT": "kW", "KWH": "kWh", "MTS": "m/s", "CMK": "cm2", "CMQ": "cm3", "FTK": "ft2", "INK": "in2", "2P": "kB",
    "4L": "MB", "E34": "GB", "E35": "TB",
    "Kg": "kg", "KG": "kg", "kgs": "kg", "KGS": "kg", "gm": "g", "gms": "g", "gr": "g", "LB": "lb", "Lb": "lb", "LBS": "lb",
    "Lbs": "lb", "OZ": "oz", "Oz": "oz", "CM": "cm", "MM": "mm", "KM": "km", "Km": "km", "kms": "km", "ML": "ml", "FT": "ft",
    "kwh": "kWh", "MHZ": "MHz", "GHZ": "GHz", "khz": "kHz", "cc": "cm3", "sqft": "ft2", "sqm": "m2", "sqkm": "km2", "sqmi": "mi2",
}  # fmt: skip
QUDT = {"M": "m", "GM": "g", "IN": "in", "FT": "ft", "YD": "yd", "MI": "mi", "LB": "lb", "OZ": "oz", "PA": "Pa", "HZ": "Hz", "OHM": "ohm"}  # fmt: skip
AMBIGUOUS = frozenset(
    ["ton", "tons", "TON", "kb", "Kb", "mb", "Mb", "gb", "Gb", "tb", "Tb", "Cal", "cals", "Calorie", "Calories"]
)  # short or long tons, bits or bytes, calories or kilocalories
EXPONENTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
POWER_WORDS = {"square": 2, "sq": 2, "sq.": 2, "cubic": 3, "cu": 3, "cu.": 3}
POWER = re.compile(r"(.*?[^\d\s^*+-])(?:\^|\*\*)?([-+]?\d{1,2})")


@cache
def _names() -> tuple[Mapping[str, Unit], Mapping[str, Unit]]:
    """Units by the names of the table; and by its words alone, in lower case."""
    names: dict[str, Unit] = {}
    words_alone: set[str] = set()
    for dimension, size, symbols, words in TABLE:
        unit = _unit(dimension, size)
        for symbol in symbols.split():
            binary = BINARY_PREFIXES if symbol in ("~B", "~bit") else {}
            names |= _with_prefixes(symbol, unit, {**SYMBOL_PREFIXES, **binary}, names)
        for forms in words.split("; ") if words else ():
            singular, _, plural = forms.partition("/")
            for word in (singular, plural or f"{singular}s"):
                prefixed = _with_prefixes(word, unit, WORD_PREFIXES, names)
                names |= prefixed
                words_alone.update(prefixed)
    names = {name: unit for name, unit in names.items() if name not in AMBIGUOUS}
    return names, {name.lower(): unit for name, unit in names.items() if name in words_alone and name not in AMBIGUOUS}


def _unit(dimension: str, size: str) -> Unit:
    factor, _, offset = size.partition(" ")
    powers = {power[0]: int(power[1:] or 1) for power in dimension.split()}
    scale = Fraction(factor)
    if powers == {"A": 1} and scale > 1:  # so many of them are a half-turn
        scale = Fraction(math.pi) / scale
    return Unit(_dimension(powers), scale, Fraction(offset or 0))


def _dimension(powers: Mapping[str, int]) -> Dimension:
    return tuple(sorted((base, power) for base, power in powers.items() if power))


def _with_prefixes(
    name: str, unit: Unit, prefixes: Mapping[str, str | int], known: Mapping[str, Unit]
) -> dict[str, Unit]:
    """The unit under its name and, if the name begins with ~, under that with each prefix. Known names stay: min, ft, cd."""
    bare = name.removeprefix("~")
    units = {bare: unit}
    if bare != name:
        for prefix, size in prefixes.items():
            if prefix + bare not in known:
                units[prefix + bare] = Unit(unit.dimension, unit.factor * Fraction(size))
    return units


def _named(name: str) -> Unit | None:
    """A unit of the table by its exact name, by a code, or by a word in any case."""
    by_name, by_word = _names()
    if name in by_name:
        return by_name[name]
    if name in OTHER_NAMES:
        return _product(OTHER_NAMES[name])
    return by_word.get(name.lower()) if name not in AMBIGUOUS else None


def _last_word(name: str) -> str:
    """The last word of an IRI or a prefixed name: unit:KiloGM, http://qudt.org/vocab/unit/KiloGM."""
    if "://" in name:
        return re.split(r"[/#]", name.rstrip("/#"))[-1]
    return name.partition(":")[2] if re.fullmatch(r"[A-Za-z][\w-]*:[^\s/]+", name) else name


def _of_qudt(name: str) -> Unit | None:
    """A product of QUDT's names: KiloGM-PER-M3, MilliL, W-HR."""
    if not re.fullmatch(r"[A-Za-z_0-9]+(?:-[A-Za-z_0-9]+)*", name):
        return None
    product, sign = Unit((), Fraction(1)), 1
    for part in name.split("-"):
        if part == "PER":
            sign = -1
            continue
        factor = _qudt_part(part)
        if factor is None or factor.offset:
            return None
        product = _times(product, factor, sign)
    return product


def _qudt_part(part: str) -> Unit | None:
    """One of QUDT's names, with its prefix and its power."""
    name, digits = re.fullmatch(r"(.*?)(\d?)", part).groups()  # type: ignore[union-attr]
    prefix, size = next(
        ((word, size) for word, size in WORD_PREFIXES.items() if name.startswith(word.capitalize())), ("", "1")
    )
    unit = _names()[0].get(QUDT.get(name[len(prefix) :], name[len(prefix) :]))
    if unit is None or unit.offset:
        return unit if not prefix and not digits else None
    return _power(Unit(unit.dimension, unit.factor * Fraction(size)), int(digits or 1))


def _product(name: str) -> Unit | None:
    """A product of powers, as SI and UCUM write them, or in words: km/h, m.s-2, W h, square miles, grams per litre."""
    name = re.sub(r"\bper\b", "/", name.translate(EXPONENTS).replace("·", ".").replace("⋅", ".").replace("×", "."))
    above, *below = name.strip("() ").split("/")
    product = _factors(above.strip("() ")) if above.strip() not in ("", "1") else Unit((), Fraction(1))
    for part in below:
        divisor = _factors(part.strip("() "))
        if product is None or divisor is None:
            return None
        product = _times(product, divisor, -1)
    return product


def _factors(text: str) -> Unit | None:
    """Factors that stand beside each other."""
    product, power = Unit((), Fraction(1)), 1
    words = [word for word in re.split(r"[\s.*]+", text) if word]
    if not words:
        return None
    for word in words:
        if word.lower() in POWER_WORDS and power == 1 and len(words) > 1:
            power = POWER_WORDS[word.lower()]
            continue
        factor = _raised(word)
        if factor is None or (factor.offset and len(words) > 1):
            return None
        product = factor if len(words) == 1 else _times(product, factor, power)
        power = 1
    return product if power == 1 else None


def _raised(word: str) -> Unit | None:
    """A name, or a power of one."""
    if (unit := _names()[0].get(word) or _names()[1].get(word.lower() if word not in AMBIGUOUS else "")) is not None:
        return unit
    match = POWER.fullmatch(word)
    base = _names()[0].get(match[1]) if match else None
    return None if match is None or base is None or base.offset else _power(base, int(match[2]))


def _power(unit: Unit, power: int) -> Unit:
    return Unit(_dimension({base: n * power for base, n in unit.dimension}), unit.factor**power)


def _times(left: Unit, right: Unit, power: int) -> Unit:
    powers = dict(left.dimension)
    for base, n in right.dimension:
        powers[base] = powers.get(base, 0) + n * power
    return Unit(_dimension(powers), left.factor * right.factor**power)
