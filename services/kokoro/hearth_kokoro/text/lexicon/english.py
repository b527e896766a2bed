"""English, as it is said in America and in Britain."""
# The signs that look like others are meant: they are what people write.
# ruff: noqa: RUF001

from dataclasses import replace

from hearth_kokoro.text.lexicon import english_measures as measures
from hearth_kokoro.text.lexicon.shape import Lexicon, table, words

AMERICAN = Lexicon(
    language="en-us",
    numbers="en",
    point="point",
    minus="minus",
    plus="plus",
    to="to",
    by="by",
    power="to the power of",
    cents="and",
    code="Code.",
    titles=table(
        """
        dr = Doctor
        mr = Mister
        mrs = Missus
        ms = Miz
        prof = Professor
        rev = Reverend
        hon = Honorable
        gen = General
        col = Colonel
        capt = Captain
        lt = Lieutenant
        sgt = Sergeant
        cpl = Corporal
        cmdr = Commander
        maj = Major
        gov = Governor
        sen = Senator
        rep = Representative
        pres = President
        st = Saint
        mt = Mount
        ft = Fort
        e.g | eg = for example
        i.e = that is
        vs = versus
        cf = compare
        viz = namely
        approx = approximately
        fig = figure
        eq = equation
        vol = volume
        ch = chapter
        pp = pages
        p = page
        no = number
        nos = numbers
        ed = edition
        jan = January
        feb = February
        mar = March
        apr = April
        jun = June
        jul = July
        aug = August
        sep | sept = September
        oct = October
        nov = November
        dec = December
        mon = Monday
        tue | tues = Tuesday
        wed = Wednesday
        thu | thur | thurs = Thursday
        fri = Friday
        """
    ),
    counted=words("fig eq vol ch pp p no nos ed ft"),
    dated=words(
        "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri"
    ),
    late=table(
        """
        st = Street
        """
    ),
    short=table(
        """
        etc = et cetera
        et al = et al
        al = al
        inc = Incorporated
        ltd = Limited
        corp = Corporation
        co = Company
        jr = Junior
        sr = Senior
        dept = department
        est = established
        ave = Avenue
        blvd = Boulevard
        rd = Road
        a.m = A-M
        p.m = P-M
        ph.d = P-H-D
        min = minutes
        max = maximum
        sec = seconds
        hr = hour
        hrs = hours
        """
    ),
    bare=table(
        """
        dr = Doctor
        mr = Mister
        mrs = Missus
        vs = versus
        etc = et cetera
        approx = approximately
        c# = C sharp
        w/o = without
        w/ = with
        b/c = because
        401k | 401(k = four oh one K
        24/7 = twenty-four seven
        a/c = A-C
        n/a = not applicable
        """
    ),
    symbols=table(
        """
        & = and
        + = plus
        = = equals
        @ = at
        # = number
        % = percent
        < = less than
        > = greater than
        <= | ≤ | =< = less than or equal to
        >= | ≥ = greater than or equal to
        == = equals
        != | ≠ | !== = not equal to
        ≈ = about
        ² = squared
        ³ = cubed
        × = times
        ÷ = divided by
        ± = plus or minus
        − = minus
        -> | → | => | ⇒ = to
        ← | <- = from
        ∞ = infinity
        √ = square root of
        ∑ = sum of
        ° = degrees
        §§ | § = section
        © = copyright
        № = number
        $ = dollars
        € = euros
        £ = pounds
        / = slash
        . = dot
        _ = underscore
        - = dash
        ~ = about
        \\ = backslash
        * = times
        ^ = to the power of
        && = and
        || = or
        """
    ),
    units=measures.UNITS,
    money=measures.MONEY,
    cent=measures.CENT,
    multipliers=measures.MULTIPLIERS,
    months=(
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ),
    ordinal=r"(?:st|nd|rd|th)",
    starters=words(
        """a an the this that these those it its he she we they you i his her our their my your
        there here in on at by for from with to of but and or so yet if when while as after
        before since because although however then now today what who where why how no not is
        are was were do does did can could will would may might please let many most some all
        each every both one two three first also even only just once"""
    ),
    joint="-",
    letters=table("A = eigh"),
    spell=words("am pm aws sql api gui ide cli uae usa llama.cpp"),
    centuries=words("chapter part volume vol act scene book war phase type class stage table"),
    kings=words(
        """louis henry charles elizabeth edward george william james philip john paul pius leo
        benedict francis frederick catherine peter alexander nicholas napoleon ramesses
        ptolemy richard gregory innocent clement urban sixtus wilhelm felipe alfonso juan
        carlos ferdinand mary victor umberto pedro"""
    ),
    king_limit=99,
    zero="zero",
)

BRITISH = replace(
    AMERICAN,
    language="en-gb",
    numbers="en_GB",
    units={
        key: (
            one.replace("meter", "metre").replace("liter", "litre"),
            several.replace("meter", "metre").replace("liter", "litre"),
        )
        for key, (one, several) in AMERICAN.units.items()
    },
)
