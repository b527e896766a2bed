"""Brazilian Portuguese."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

from hearth_kokoro.text.lexicon.schema import Lexicon, pairs, table, words

PORTUGUESE = Lexicon(
    language="pt-br",
    numbers="pt_BR",
    emoji="pt",
    decimal=",",
    thousands=".",
    point="vírgula",
    spelled=False,
    minus="menos",
    plus="mais",
    to="a",
    by="por",
    power="elevado a",
    cents="e",
    of_money="de",
    clock="e",
    code="Código.",
    titles=table(
        """
        sr = senhor
        sra = senhora
        srta = senhorita
        srs = senhores
        dr = doutor
        dra = doutora
        d = dom
        prof = professor
        profa = professora
        eng = engenheiro
        gen = general
        cap = capítulo
        fig = figura
        pág | p = página
        págs | pp = páginas
        n | núm = número
        vol = volume
        art = artigo
        av = avenida
        r = rua
        p. ex | p.ex = por exemplo
        aprox = aproximadamente
        tel = telefone
        sto = santo
        sta = santa
        vs = versus
        """
    ),
    counted=words("cap fig pág p págs pp n núm vol art"),
    short=table(
        """
        etc = etecétera
        a.c | a. c = antes de Cristo
        d.c | d. c = depois de Cristo
        ltda = limitada
        cia = companhia
        s.a | s. a = esse á
        máx = máximo
        mín = mínimo
        """
    ),
    undotted=table(
        """
        n° | nº = número
        sr = senhor
        sra = senhora
        dr = doutor
        dra = doutora
        etc = etecétera
        """
    ),
    symbols=table(
        """
        & = e
        + = mais
        = | == = igual a
        @ = arroba
        # = número
        % = por cento
        < = menor que
        > = maior que
        <= | ≤ = menor ou igual a
        >= | ≥ = maior ou igual a
        != | ≠ = diferente de
        ≈ | ~ = aproximadamente
        × | * = vezes
        ² = ao quadrado
        ³ = ao cubo
        ÷ = dividido por
        ± = mais ou menos
        − = menos
        -> | → | => | ⇒ = para
        ← | <- = de
        ∞ = infinito
        √ = raiz de
        ° = graus
        § = parágrafo
        © = copyright
        № = número
        $ = dólares
        € = euros
        £ = libras
        / = barra
        . = ponto
        _ = sublinhado
        - = traço
        \\ = barra invertida
        ^ = elevado a
        && = e
        || = ou
        """
    ),
    units=pairs(
        """
        km = quilômetro, quilômetros
        m = metro, metros
        cm = centímetro, centímetros
        mm = milímetro, milímetros
        km² | km2 = quilômetro quadrado, quilômetros quadrados
        m² | m2 = metro quadrado, metros quadrados
        m³ | m3 = metro cúbico, metros cúbicos
        km/h = quilômetro por hora, quilômetros por hora
        m/s = metro por segundo, metros por segundo
        m/s² | m/s^2 | m/s2 = metro por segundo ao quadrado, metros por segundo ao quadrado
        kg = quilo, quilos
        g = grama, gramas
        mg = miligrama, miligramas
        t = tonelada, toneladas
        l | L = litro, litros
        ml | mL = mililitro, mililitros
        h = hora, horas
        min = minuto, minutos
        s | seg = segundo, segundos
        ms = milissegundo, milissegundos
        °C | ºC | ℃ = grau Celsius, graus Celsius
        °F | ºF | ℉ = grau Fahrenheit, graus Fahrenheit
        ° = grau, graus
        Hz = hertz
        kHz = quilohertz
        MHz = megahertz
        GHz = gigahertz
        W = watt, watts
        kW = quilowatt, quilowatts
        kWh = quilowatt hora, quilowatts hora
        V = volt, volts
        dB = decibel, decibéis
        kB | KB = kilobyte, kilobytes
        MB = megabyte, megabytes
        GB = gigabyte, gigabytes
        TB = terabyte, terabytes
        px = pixel, pixels
        ha = hectare, hectares
        kcal = quilocaloria, quilocalorias
        % = por cento
        ‰ = por mil
        """
    ),
    money=pairs(
        """
        R$ | BRL = real, reais
        $ | US$ | USD = dólar, dólares
        € | EUR = euro, euros
        £ | GBP = libra, libras
        ¥ | JPY = iene, ienes
        CHF = franco suíço, francos suíços
        ₹ | INR = rupia, rupias
        """
    ),
    cent=pairs(
        """
        R$ | BRL = centavo, centavos
        $ | US$ | USD = centavo, centavos
        € | EUR = cêntimo, cêntimos
        £ | GBP = pêni, pence
        """
    ),
    multipliers=table(
        """
        mil = mil
        milhão = milhão
        milhões | mi = milhões
        bilhão = bilhão
        bilhões | bi = bilhões
        trilhões = trilhões
        """
    ),
    months=(
        "janeiro",
        "fevereiro",
        "março",
        "abril",
        "maio",
        "junho",
        "julho",
        "agosto",
        "setembro",
        "outubro",
        "novembro",
        "dezembro",
    ),
    ordinal=r"\.?(?:(?P<f>ª|a(?=$))|º|°(?=$)|o(?=$))",
    starters=words(
        """o a os as um uma este esta isto esse essa isso ele ela eles elas eu nós você vocês e
        mas ou em no na com por para de do da é são foi há se que quem como quando onde por
        enquanto depois antes também então hoje agora seu sua meu minha muitos alguns todos
        não"""
    ),
    spell=words("ia usb ue dna pc tv"),
    centuries=words("século séculos capítulo tomo parte volume título guerra ato cena"),
    kings=words("""pedro joão paulo luís henrique carlos afonso manuel maria pio bento
        francisco napoleão elizabeth filipe jorge eduardo"""),
    king_limit=10,
    zero="zero",
)
