"""What English counts: units, money, and the words for many."""
# The signs that look like others are meant: they are what people write.
# ruff: noqa: RUF001

from hearth_kokoro.text.lexicon.shape import pairs, table

UNITS = pairs(
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

MONEY = pairs(
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

CENT = pairs(
    """
    $ | US$ | USD | CA$ | C$ | A$ | AU$ | € | EUR | CAD | AUD = cent, cents
    £ | GBP = penny, pence
    ₹ | INR | Rs = paisa, paise
    R$ | BRL = centavo, centavos
    """
)

MULTIPLIERS = table(
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
