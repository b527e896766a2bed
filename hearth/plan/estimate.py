"""What a model moves, estimated from its number of parameters alone."""

import math

from hearth.plan.models import Shape
from hearth.plan.quantisation import active_bytes, weight_bytes
from hearth.plan.speed import Work

# Layers of models from 1 to 70 billion parameters grow with this power of the parameters; a
# mixture's follow the geometric mean of all and of the active ones.
_LAYERS_OF_1B, _POWER = 17, 0.35
# Keys and values of a layer and token: 8 heads of 128 in most models, 4 in small ones; two bytes.
_CACHE_BYTES, _SMALL_CACHE_BYTES, _SMALL = 2 * 8 * 128 * 2, 2 * 4 * 128 * 2, 3e9


# Widths of a model of 8 billion parameters, whose square grows with the parameters of a layer.
_WIDTH_OF_8B, _FEED_FORWARD = 4096, 3.2


def estimated_shape(parameters: float) -> Shape:
    """Return the dimensions of a dense model of which only the size is known."""
    layers = _layers(parameters, parameters)
    cache = (_CACHE_BYTES if parameters > _SMALL else _SMALL_CACHE_BYTES) // 4
    width = round(_WIDTH_OF_8B * math.sqrt(parameters / layers / 250e6))
    return Shape(
        architecture="unknown",
        parameters=parameters,
        active_parameters=parameters,
        layers=layers,
        width=width,
        feed_forward=round(_FEED_FORWARD * width),
        query_width=width,
        key_width=cache,
        value_width=cache,
    )


def _layers(parameters: float, active_parameters: float) -> int:
    middle = math.sqrt(parameters * active_parameters) / 1e9
    return max(1, round(_LAYERS_OF_1B * math.pow(middle, _POWER)))


def estimated_work(
    parameters: float, active_parameters: float, quantisation: str, context: int
) -> Work:
    """Return what a model of this size moves, with a cache for `context` tokens.

    Raises:
        PlanError: there is no such quantisation.
    """
    middle = (parameters * active_parameters) ** 0.5 / 1e9
    layers = max(1, round(_LAYERS_OF_1B * middle**_POWER))
    cache = (
        _CACHE_BYTES if active_parameters > _SMALL or parameters > _SMALL else _SMALL_CACHE_BYTES
    )
    return Work(
        parameters=parameters,
        active_parameters=active_parameters,
        weights_bytes=weight_bytes(parameters, quantisation),
        active_bytes=active_bytes(active_parameters, quantisation),
        layers=layers,
        cache_bytes=layers * cache * context,
    )
