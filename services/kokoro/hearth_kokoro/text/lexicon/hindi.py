"""Hindi; espeak-ng reads its numbers, because num2words does not support Hindi."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

from hearth_kokoro.text.lexicon.schema import Lexicon, pairs, table

HINDI = Lexicon(
    language="hi",
    point="दशमलव",
    minus="माइनस",
    plus="प्लस",
    to="से",
    by="गुणा",
    power="की घात",
    cents="",
    clock="बजकर",
    code="कोड.",
    titles=table(
        """
        डॉ = डॉक्टर
        श्री = श्री
        प्रो = प्रोफ़ेसर
        पं = पंडित
        सं = संख्या
        dr = डॉक्टर
        mr = मिस्टर
        """
    ),
    short=table("""
        रु = रुपये
        कि.मी = किलोमीटर
        कि.ग्रा = किलोग्राम
        """),
    symbols=table(
        """
        & = और
        + = प्लस
        = = बराबर
        @ = ऐट
        # = नंबर
        % = प्रतिशत
        < = से कम
        > = से ज़्यादा
        <= | ≤ = से कम या बराबर
        >= | ≥ = से ज़्यादा या बराबर
        != | ≠ = बराबर नहीं
        ≈ | ~ = लगभग
        × | * = गुणा
        ² = का वर्ग
        ³ = का घन
        ÷ = भाग
        ± = प्लस माइनस
        − = माइनस
        -> | → | => = से
        ° = डिग्री
        © = कॉपीराइट
        $ = डॉलर
        € = यूरो
        £ = पाउंड
        ₹ = रुपये
        / = स्लैश
        . = डॉट
        _ = अंडरस्कोर
        - = डैश
        """
    ),
    units=pairs(
        """
        km | किमी = किलोमीटर
        m = मीटर
        cm | सेमी = सेंटीमीटर
        mm = मिलीमीटर
        km/h = किलोमीटर प्रति घंटा
        m/s = मीटर प्रति सेकंड
        m/s² = मीटर प्रति वर्ग सेकंड
        kg | किग्रा = किलो
        g = ग्राम
        l | L = लीटर
        ml = मिलीलीटर
        °C | ℃ = डिग्री सेल्सियस
        ° = डिग्री
        GB = गीगाबाइट
        MB = मेगाबाइट
        % = प्रतिशत
        """
    ),
    money=pairs(
        """
        ₹ | INR | Rs = रुपया, रुपये
        $ | US$ | USD = डॉलर
        € | EUR = यूरो
        £ | GBP = पाउंड
        """
    ),
    cent=pairs(
        """
        ₹ | INR | Rs = पैसा, पैसे
        $ | US$ | USD | € | EUR = सेंट
        £ = पेंस
        """
    ),
    multipliers=table(
        """
        हज़ार | हजार = हज़ार
        लाख = लाख
        करोड़ = करोड़
        अरब = अरब
        """
    ),
    months=(
        "जनवरी",
        "फ़रवरी",
        "मार्च",
        "अप्रैल",
        "मई",
        "जून",
        "जुलाई",
        "अगस्त",
        "सितंबर",
        "अक्टूबर",
        "नवंबर",
        "दिसंबर",
    ),
    scripts="LATIN|DEVANAGARI",
)
