"""French."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

from hearth_kokoro.text.lexicon.schema import Lexicon, pairs, table, words

FRENCH = Lexicon(
    language="fr-fr",
    numbers="fr",
    emoji="fr",
    decimal=",",
    thousands=".",
    point="virgule",
    spelled=False,
    minus="moins",
    plus="plus",
    to="à",
    by="sur",
    power="puissance",
    cents="",
    of_money="de",
    clock="heures",
    code="Code.",
    titles=table(
        """
        m = monsieur
        mm = messieurs
        dr = docteur
        pr = professeur
        st = saint
        ste = sainte
        p. ex | p.ex = par exemple
        c.-à-d | càd = c'est-à-dire
        cf = confer
        fig = figure
        p | pp = page
        n = numéro
        vol = volume
        chap = chapitre
        art = article
        av = avenue
        bd | boul = boulevard
        env = environ
        tél = téléphone
        janv = janvier
        févr = février
        avr = avril
        juil = juillet
        sept = septembre
        oct = octobre
        nov = novembre
        déc = décembre
        """
    ),
    counted=words("fig p pp n vol chap art"),
    short=table(
        """
        etc = et cetera
        av. j.-c = avant Jésus-Christ
        apr. j.-c = après Jésus-Christ
        j.-c = Jésus-Christ
        max = maximum
        min = minimum
        """
    ),
    undotted=table(
        """
        mme = madame
        mmes = mesdames
        mlle = mademoiselle
        mgr = monseigneur
        dr = docteur
        n° | nº = numéro
        etc = et cetera
        """
    ),
    symbols=table(
        """
        & = et
        + = plus
        = | == = égale
        @ = arobase
        # = numéro
        % = pour cent
        < = inférieur à
        > = supérieur à
        <= | ≤ = inférieur ou égal à
        >= | ≥ = supérieur ou égal à
        != | ≠ = différent de
        ≈ | ~ = environ
        × | * = fois
        ² = au carré
        ³ = au cube
        ÷ = divisé par
        ± = plus ou moins
        − = moins
        -> | → | => | ⇒ = vers
        ← | <- = depuis
        ∞ = infini
        √ = racine de
        ° = degrés
        § = paragraphe
        © = copyright
        № = numéro
        $ = dollars
        € = euros
        £ = livres
        / = slash
        . = point
        _ = tiret bas
        - = tiret
        \\ = antislash
        ^ = puissance
        && = et
        || = ou
        """
    ),
    units=pairs(
        """
        km = kilomètre, kilomètres
        m = mètre, mètres
        cm = centimètre, centimètres
        mm = millimètre, millimètres
        km² | km2 = kilomètre carré, kilomètres carrés
        m² | m2 = mètre carré, mètres carrés
        m³ | m3 = mètre cube, mètres cubes
        km/h = kilomètre heure, kilomètres heure
        m/s = mètre par seconde, mètres par seconde
        m/s² | m/s^2 | m/s2 = mètre par seconde au carré, mètres par seconde au carré
        kg = kilo, kilos
        g = gramme, grammes
        mg = milligramme, milligrammes
        t = tonne, tonnes
        l | L = litre, litres
        ml | mL = millilitre, millilitres
        cl | cL = centilitre, centilitres
        h = heure, heures
        min | mn = minute, minutes
        s | sec = seconde, secondes
        ms = milliseconde, millisecondes
        °C | ℃ = degré Celsius, degrés Celsius
        °F | ℉ = degré Fahrenheit, degrés Fahrenheit
        ° = degré, degrés
        Hz = hertz
        kHz = kilohertz
        MHz = mégahertz
        GHz = gigahertz
        W = watt, watts
        kW = kilowatt, kilowatts
        kWh = kilowattheure, kilowattheures
        V = volt, volts
        dB = décibel, décibels
        ko | Ko | kB = kilooctet, kilooctets
        Mo | MB = mégaoctet, mégaoctets
        Go | GB = gigaoctet, gigaoctets
        To | TB = téraoctet, téraoctets
        px = pixel, pixels
        ha = hectare, hectares
        kcal = kilocalorie, kilocalories
        % = pour cent
        ‰ = pour mille
        """
    ),
    money=pairs(
        """
        $ | US$ | USD = dollar, dollars
        € | EUR = euro, euros
        £ | GBP = livre, livres
        ¥ | JPY = yen, yens
        CHF = franc suisse, francs suisses
        CAD = dollar canadien, dollars canadiens
        R$ | BRL = réal, réaux
        ₹ | INR = roupie, roupies
        """
    ),
    cent=pairs(
        """
        $ | US$ | USD | CAD = cent, cents
        € | EUR | CHF = centime, centimes
        £ | GBP = penny, pence
        """
    ),
    multipliers=table(
        """
        mille = mille
        million = million
        millions = millions
        M = millions
        milliard | Md = milliard
        milliards | Mds = milliards
        """
    ),
    months=(
        "janvier",
        "février",
        "mars",
        "avril",
        "mai",
        "juin",
        "juillet",
        "août",
        "septembre",
        "octobre",
        "novembre",
        "décembre",
    ),
    ordinal=r"(?:(?P<f>re|ère)|er|e|è|ème|eme|nd|nde|ᵉ)",
    starters=words(
        """le la les l un une des ce cet cette ces il elle ils elles on je tu nous vous et mais
        ou donc or ni car en dans avec pour par de du à au aux est sont c'est qui que quoi où
        quand comment pourquoi si comme lorsque puis après avant aussi alors aujourd'hui
        maintenant son sa ses mon ma mes notre votre leur leurs beaucoup certains tous"""
    ),
    spell=words("ia usb ue adn arn pc tv cv oms"),
    centuries=words("siècle siècles chapitre tome partie volume titre guerre acte scène"),
    kings=words("""louis henri charles françois philippe jean paul pie benoît napoléon
        élisabeth georges édouard guillaume pierre alexandre nicolas frédéric ramsès"""),
    king_limit=1,
    zero="zéro",
)
