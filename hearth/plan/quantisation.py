"""How many bytes a weight takes in each quantisation that llama.cpp writes."""

from hearth.plan import PlanError

# Bytes per weight of whole files, output and norms included, without the token embedding's
# surcharge. Blocks of one type have exact sizes (Q8_0: 34 bytes for 32 weights); the mixed types
# are means over published files of models from 7 to 70 billion parameters.
_BYTES = {
    "F32": 4.0,
    "F16": 2.0,
    "BF16": 2.0,
    "Q8_0": 34 / 32,
    "Q6_K": 210 / 256,
    "Q5_K_M": 0.70,
    "Q5_K_S": 0.685,
    "Q5_0": 22 / 32,
    "Q5_1": 24 / 32,
    "Q4_K_M": 0.60,
    "Q4_K_S": 0.57,
    "Q4_0": 18 / 32,
    "Q4_1": 20 / 32,
    "IQ4_NL": 18 / 32,
    "IQ4_XS": 0.535,
    "MXFP4": 0.54,
    "NVFP4": 0.57,
    "Q3_K_L": 0.53,
    "Q3_K_M": 0.485,
    "Q3_K_S": 0.435,
    "IQ3_M": 0.455,
    "IQ3_S": 0.435,
    "IQ3_XXS": 0.39,
    "Q2_K": 0.39,
    "Q2_K_S": 0.36,
    "IQ2_M": 0.34,
    "IQ2_XS": 0.30,
    "IQ2_XXS": 0.27,
    "IQ1_M": 0.235,
    "IQ1_S": 0.215,
    "Q4_K_XL": 0.61,
    "Q5_K_XL": 0.71,
    "Q6_K_XL": 0.89,
    "Q8_K_XL": 1.12,
}
# A type of few bits keeps the embedding and the output in one of more bits.
_EMBEDDING_BYTES, _FEW = 80e6, 1.0
_NAMES = {
    "Q4_K": "Q4_K_M",
    "Q5_K": "Q5_K_M",
    "Q3_K": "Q3_K_M",
    "Q4": "Q4_K_M",
    "Q5": "Q5_K_M",
    "Q6": "Q6_K",
    "Q8": "Q8_0",
    "FP16": "F16",
    "FP32": "F32",
}


def normal(name: str) -> str:
    """Return the quantisation as llama.cpp writes it.

    Raises:
        PlanError: there is no such quantisation.
    """
    text = name.strip().upper().replace("-", "_").removeprefix("UD_")
    text = _NAMES.get(text, text)
    if text not in _BYTES:
        raise PlanError(
            f"{name[:40]!r} is not a quantisation that llama.cpp reads; write e.g. Q4_K_M, Q8_0 or "
            "F16"
        )
    return text


def weight_bytes(parameters: float, quantisation: str) -> float:
    """Return the size of a file with so many weights."""
    each = _BYTES[normal(quantisation)]
    return parameters * each + (_EMBEDDING_BYTES if each < _FEW else 0)


def active_bytes(parameters: float, quantisation: str) -> float:
    """Return what one token reads of the weights, of which so many are active."""
    return weight_bytes(parameters, quantisation)
