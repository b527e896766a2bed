"""Italian."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

from hearth_kokoro.text.lexicon.schema import Lexicon, pairs, table, words

ITALIAN = Lexicon(
    language="it",
    numbers="it",
    emoji="it",
    decimal=",",
    thousands=".",
    point="virgola",
    spelled=False,
    minus="meno",
    plus="più",
    to="a",
    by="per",
    power="alla",
    cents="e",
    of_money="di",
    clock="e",
    code="Codice.",
    titles=table(
        """
        sig = signor
        sig.ra | sig.na = signora
        sigg = signori
        dott | dr = dottor
        dott.ssa = dottoressa
        prof = professor
        prof.ssa = professoressa
        ing = ingegner
        avv = avvocato
        arch = architetto
        on = onorevole
        gen = generale
        col = colonnello
        cap = capitolo
        fig = figura
        pag | p = pagina
        pagg | pp = pagine
        n | num = numero
        vol = volume
        art = articolo
        p. es | p.es | ad es = per esempio
        cfr = confronta
        ca = circa
        tel = telefono
        s = san
        gent = gentile
        """
    ),
    counted=words("cap fig pag p pagg pp n num vol art"),
    short=table(
        """
        ecc = eccetera
        a.c | a. c = avanti Cristo
        d.c | d. c = dopo Cristo
        s.p.a = società per azioni
        s.r.l = esse erre elle
        max = massimo
        min = minimo
        """
    ),
    undotted=table(
        """
        sig.ra = signora
        sig.na = signorina
        dott.ssa = dottoressa
        prof.ssa = professoressa
        n° | nº = numero
        ecc = eccetera
        """
    ),
    symbols=table(
        """
        & = e
        + = più
        = | == = uguale
        @ = chiocciola
        # = numero
        % = per cento
        < = minore di
        > = maggiore di
        <= | ≤ = minore o uguale a
        >= | ≥ = maggiore o uguale a
        != | ≠ = diverso da
        ≈ | ~ = circa
        × | * = per
        ² = al quadrato
        ³ = al cubo
        ÷ = diviso
        ± = più o meno
        − = meno
        -> | → | => | ⇒ = a
        ← | <- = da
        ∞ = infinito
        √ = radice di
        ° = gradi
        § = paragrafo
        © = copyright
        № = numero
        $ = dollari
        € = euro
        £ = sterline
        / = barra
        . = punto
        _ = trattino basso
        - = trattino
        \\ = barra inversa
        ^ = alla
        && = e
        || = o
        """
    ),
    units=pairs(
        """
        km = chilometro, chilometri
        m = metro, metri
        cm = centimetro, centimetri
        mm = millimetro, millimetri
        km² | km2 = chilometro quadrato, chilometri quadrati
        m² | m2 | mq = metro quadrato, metri quadrati
        m³ | m3 = metro cubo, metri cubi
        km/h = chilometro orario, chilometri orari
        m/s = metro al secondo, metri al secondo
        m/s² | m/s^2 | m/s2 = metro al secondo quadrato, metri al secondo quadrato
        kg = chilo, chili
        g = grammo, grammi
        mg = milligrammo, milligrammi
        t = tonnellata, tonnellate
        l | L = litro, litri
        ml | mL = millilitro, millilitri
        h = ora, ore
        min = minuto, minuti
        s | sec = secondo, secondi
        ms = millisecondo, millisecondi
        °C | ℃ = grado Celsius, gradi Celsius
        °F | ℉ = grado Fahrenheit, gradi Fahrenheit
        ° = grado, gradi
        Hz = hertz
        kHz = chilohertz
        MHz = megahertz
        GHz = gigahertz
        W = watt
        kW = chilowatt
        kWh = chilowattora
        V = volt
        dB = decibel
        kB | KB = kilobyte
        MB = megabyte
        GB = gigabyte
        TB = terabyte
        px = pixel
        ha = ettaro, ettari
        kcal = chilocaloria, chilocalorie
        % = per cento
        ‰ = per mille
        """
    ),
    money=pairs(
        """
        $ | US$ | USD = dollaro, dollari
        € | EUR = euro
        £ | GBP = sterlina, sterline
        ¥ | JPY = yen
        CHF = franco svizzero, franchi svizzeri
        R$ | BRL = real
        ₹ | INR = rupia, rupie
        """
    ),
    cent=pairs(
        """
        $ | US$ | USD = centesimo, centesimi
        € | EUR | CHF = centesimo, centesimi
        £ | GBP = penny, pence
        """
    ),
    multipliers=table(
        """
        mila = mila
        milione = milione
        milioni | mln | Mln = milioni
        miliardo = miliardo
        miliardi | mld | Mld = miliardi
        """
    ),
    months=(
        "gennaio",
        "febbraio",
        "marzo",
        "aprile",
        "maggio",
        "giugno",
        "luglio",
        "agosto",
        "settembre",
        "ottobre",
        "novembre",
        "dicembre",
    ),
    ordinal=r"(?:(?P<f>ª)|º|°(?=$))",
    starters=words(
        """il lo la i gli le un uno una questo questa quello quella egli lui lei loro noi voi
        io tu e ma o in con per da di del della al alla è sono era c'è che chi cosa dove
        quando come perché se mentre poi dopo prima anche allora oggi adesso ora suo sua mio
        mia molti alcuni tutti non"""
    ),
    spell=words("ia usa pc tv"),
    centuries=words("secolo secoli capitolo tomo parte volume titolo atto scena"),
    kings=words("""luigi enrico carlo vittorio emanuele umberto filippo giovanni paolo pio
        benedetto francesco napoleone elisabetta giorgio edoardo guglielmo pietro alessandro"""),
    king_limit=99,
    zero="zero",
)
