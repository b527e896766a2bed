"""American and British English."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

from dataclasses import replace

from hearth_kokoro.text.lexicon.schema import Lexicon, pairs, table, words

_UNITS = pairs(
    """
    km = kilometer, kilometers
    m = meter, meters
    cm = centimeter, centimeters
    mm = millimeter, millimeters
    µm | μm = micrometer, micrometers
    nm = nanometer, nanometers
    mi = mile, miles
    ft = foot, feet
    in = inch, inches
    yd = yard, yards
    km² | km2 = square kilometer, square kilometers
    m² | m2 | sqm = square meter, square meters
    ft² | sqft = square foot, square feet
    m³ | m3 = cubic meter, cubic meters
    km/h | kmh | kph = kilometer per hour, kilometers per hour
    mph = mile per hour, miles per hour
    m/s = meter per second, meters per second
    m/s² | m/s^2 | m/s2 = meter per second squared, meters per second squared
    kg/m³ = kilogram per cubic meter, kilograms per cubic meter
    g/cm³ = gram per cubic centimeter, grams per cubic centimeter
    kg = kilogram, kilograms
    g = gram, grams
    mg = milligram, milligrams
    µg = microgram, micrograms
    t = ton, tons
    lb = pound, pounds
    lbs = pound, pounds
    oz = ounce, ounces
    l | L = liter, liters
    ml | mL = milliliter, milliliters
    h | hr | hrs = hour, hours
    min | mins = minute, minutes
    s | sec | secs = second, seconds
    ms = millisecond, milliseconds
    µs | μs = microsecond, microseconds
    ns = nanosecond, nanoseconds
    °C | ℃ = degree Celsius, degrees Celsius
    °F | ℉ = degree Fahrenheit, degrees Fahrenheit
    ° = degree, degrees
    Hz = hertz
    kHz = kilohertz
    MHz = megahertz
    GHz = gigahertz
    W = watt, watts
    kW = kilowatt, kilowatts
    MW = megawatt, megawatts
    kWh = kilowatt hour, kilowatt hours
    V = volt, volts
    A = ampere, amperes
    mAh = milliampere hour, milliampere hours
    Pa = pascal, pascals
    hPa = hectopascal, hectopascals
    dB = decibel, decibels
    kB | KB = kilobyte, kilobytes
    MB = megabyte, megabytes
    GB = gigabyte, gigabytes
    TB = terabyte, terabytes
    KiB = kibibyte, kibibytes
    MiB = mebibyte, mebibytes
    GiB = gibibyte, gibibytes
    Mbps | Mbit/s = megabit per second, megabits per second
    Gbps | Gbit/s = gigabit per second, gigabits per second
    MB/s = megabyte per second, megabytes per second
    GB/s = gigabyte per second, gigabytes per second
    px = pixel, pixels
    fps = frame per second, frames per second
    rpm = revolution per minute, revolutions per minute
    kcal = kilocalorie, kilocalories
    cal = calorie, calories
    ha = hectare, hectares
    % = percent
    ‰ = per mille
    x | × = times
    """
)

_MONEY = pairs(
    """
    $ | US$ | USD = dollar, dollars
    CA$ | C$ | CAD = Canadian dollar, Canadian dollars
    A$ | AU$ | AUD = Australian dollar, Australian dollars
    € | EUR = euro, euros
    £ | GBP = pound, pounds
    ¥ | JPY = yen
    CNY | RMB = yuan
    ₹ | INR | Rs = rupee, rupees
    CHF = Swiss franc, Swiss francs
    R$ | BRL = real, reais
    ₽ | RUB = ruble, rubles
    ₩ | KRW = won
    ₿ | BTC = bitcoin, bitcoins
    ¢ = cent, cents
    """
)

_CENT = pairs(
    """
    $ | US$ | USD | CA$ | C$ | A$ | AU$ | € | EUR | CAD | AUD = cent, cents
    £ | GBP = penny, pence
    ₹ | INR | Rs = paisa, paise
    R$ | BRL = centavo, centavos
    """
)

_MULTIPLIERS = table(
    """
    k | K = thousand
    M | mn | mio = million
    B | bn | bln = billion
    T | tn = trillion
    hundred = hundred
    thousand = thousand
    million = million
    billion = billion
    trillion = trillion
    dozen = dozen
    """
)

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
    undotted=table(
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
    units=_UNITS,
    money=_MONEY,
    cent=_CENT,
    multipliers=_MULTIPLIERS,
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
