"""Spanish."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

from hearth_kokoro.text.lexicon.schema import Lexicon, pairs, table, words

SPANISH = Lexicon(
    language="es",
    numbers="es",
    emoji="es",
    decimal=",",
    thousands=".",
    point="coma",
    spelled=False,
    minus="menos",
    plus="más",
    to="a",
    by="por",
    power="elevado a",
    cents="con",
    of_money="de",
    clock="y",
    code="Código.",
    titles=table(
        """
        sr = señor
        sra = señora
        srta = señorita
        sres = señores
        dr = doctor
        dra = doctora
        d = don
        dña | dª = doña
        prof = profesor
        profa = profesora
        lic = licenciado
        ing = ingeniero
        arq = arquitecto
        gral = general
        cap = capítulo
        fig = figura
        pág | p = página
        págs | pp = páginas
        núm | nro | n = número
        vol = volumen
        art = artículo
        av | avda = avenida
        c = calle
        sto = santo
        sta = santa
        p. ej | p.ej = por ejemplo
        aprox = aproximadamente
        tel | tfno = teléfono
        vs = contra
        cf = compárese
        ud | vd = usted
        uds | vds = ustedes
        """
    ),
    counted=words("cap fig pág p págs pp núm nro n vol art"),
    short=table(
        """
        etc = etcétera
        a. c | a.c = antes de Cristo
        d. c | d.c = después de Cristo
        a. m | a.m = a eme
        p. m | p.m = pe eme
        ee. uu | ee.uu | e.u = Estados Unidos
        cía = compañía
        s. a | s.a = ese a
        dpto | depto = departamento
        máx = máximo
        mín = mínimo
        """
    ),
    undotted=table(
        """
        n° | nº | n.º = número
        sr = señor
        sra = señora
        dr = doctor
        dra = doctora
        etc = etcétera
        """
    ),
    symbols=table(
        """
        & = y
        + = más
        = | == = igual a
        @ = arroba
        # = número
        % = por ciento
        < = menor que
        > = mayor que
        <= | ≤ = menor o igual que
        >= | ≥ = mayor o igual que
        != | ≠ = distinto de
        ≈ | ~ = aproximadamente
        × | * = por
        ² = al cuadrado
        ³ = al cubo
        ÷ = dividido por
        ± = más o menos
        − = menos
        -> | → | => | ⇒ = a
        ← | <- = desde
        ∞ = infinito
        √ = raíz de
        ° = grados
        § = sección
        © = derechos de
        № = número
        $ = dólares
        € = euros
        £ = libras
        / = barra
        . = punto
        _ = guion bajo
        - = guion
        \\ = barra invertida
        ^ = elevado a
        && = y
        || = o
        """
    ),
    units=pairs(
        """
        km = kilómetro, kilómetros
        m = metro, metros
        cm = centímetro, centímetros
        mm = milímetro, milímetros
        km² | km2 = kilómetro cuadrado, kilómetros cuadrados
        m² | m2 = metro cuadrado, metros cuadrados
        m³ | m3 = metro cúbico, metros cúbicos
        km/h = kilómetro por hora, kilómetros por hora
        m/s = metro por segundo, metros por segundo
        m/s² | m/s^2 | m/s2 = metro por segundo al cuadrado, metros por segundo al cuadrado
        kg = kilo, kilos
        g = gramo, gramos
        mg = miligramo, miligramos
        t = tonelada, toneladas
        l | L = litro, litros
        ml | mL = mililitro, mililitros
        h = hora, horas
        min = minuto, minutos
        s | seg = segundo, segundos
        ms = milisegundo, milisegundos
        °C | ºC | ℃ = grado Celsius, grados Celsius
        °F | ºF | ℉ = grado Fahrenheit, grados Fahrenheit
        ° = grado, grados
        Hz = hercio, hercios
        kHz = kilohercio, kilohercios
        MHz = megahercio, megahercios
        GHz = gigahercio, gigahercios
        W = vatio, vatios
        kW = kilovatio, kilovatios
        kWh = kilovatio hora, kilovatios hora
        V = voltio, voltios
        dB = decibelio, decibelios
        kB | KB = kilobyte, kilobytes
        MB = megabyte, megabytes
        GB = gigabyte, gigabytes
        TB = terabyte, terabytes
        px = píxel, píxeles
        ha = hectárea, hectáreas
        kcal = kilocaloría, kilocalorías
        % = por ciento
        ‰ = por mil
        """
    ),
    money=pairs(
        """
        $ | US$ | USD = dólar, dólares
        € | EUR = euro, euros
        £ | GBP = libra, libras
        ¥ | JPY = yen, yenes
        MXN = peso mexicano, pesos mexicanos
        ARS = peso argentino, pesos argentinos
        CHF = franco suizo, francos suizos
        R$ | BRL = real, reales
        ₹ | INR = rupia, rupias
        """
    ),
    cent=pairs(
        """
        $ | US$ | USD | MXN | ARS = centavo, centavos
        € | EUR = céntimo, céntimos
        £ | GBP = penique, peniques
        R$ | BRL = centavo, centavos
        """
    ),
    multipliers=table(
        """
        mil = mil
        millón = millón
        millones = millones
        M = millones
        billones = billones
        """
    ),
    months=(
        "enero",
        "febrero",
        "marzo",
        "abril",
        "mayo",
        "junio",
        "julio",
        "agosto",
        "septiembre",
        "octubre",
        "noviembre",
        "diciembre",
    ),
    ordinal=r"\.?(?:(?P<f>ª|ra|da|ta|va|na)|º|°(?=$)|er|ro|do|to|vo|no|mo)",
    starters=words(
        """el la los las un una unos unas este esta esto ese esa eso él ella ellos ellas yo tú
        nosotros no sí y pero o en con por para de del a al es son fue hay se lo le que qué
        quién cómo cuándo dónde si cuando como mientras después antes también luego entonces
        hoy ahora su sus mi mis tu muchos algunos todos"""
    ),
    spell=words("ia usb ue adn arn pc tv"),
    centuries=words("siglo siglos capítulo tomo parte volumen título guerra"),
    kings=words("""felipe alfonso carlos fernando juan pablo luis enrique isabel pío
        benedicto francisco napoleón pedro jaime sancho ramiro ricardo eduardo jorge"""),
    king_limit=10,
    zero="cero",
)
