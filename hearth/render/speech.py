"""How the speech programs are started: which files they need, and their command lines."""

from collections.abc import Iterable, Mapping
from typing import Any

from hearth.catalogue.house import House, Service
from hearth.render.units import UnitError

PROGRAMS = "/opt/hearth"
# Names of sources.lock.yml, and the names of the files.
_KOKORO_FILES = {
    "kokoro_model": "kokoro-v1.0.onnx",
    "kokoro_model_fp16": "kokoro-v1.0.fp16.onnx",
    "kokoro_model_int8": "kokoro-v1.0.int8.onnx",
    "kokoro_weights": "kokoro-v1_0.pth",
    "kokoro_config": "config.json",
    "kokoro_voices": "voices-v1.0.bin",
}
# Without a card, and with one.
_KOKORO_MODELS = (("kokoro_model", "kokoro_model_fp16", "kokoro_model_int8"), ("kokoro_weights",))


def current(program: str, path: str = "") -> str:
    """Return the path of an installed program as an instance sees it."""
    return "/".join(part for part in (PROGRAMS, program, "current", path) if part)


def whisper(
    service: Service, accelerator: str, draft: str = "auto", unload_s: int = 0
) -> dict[str, Any]:
    """Return the files that the STT server needs, and its start data.

    Args:
        service: Its record.
        accelerator: What the machine has for it.
        draft: A small model for text during speech; "": none; "auto": chosen.
        unload_s: Seconds without a request until the models are unloaded; 0: never.

    Raises:
        UnitError: The draft is not a model of the service.
    """
    wanted = [model for model in service.weights if model.wanted]
    if draft == "auto":
        # An English draft would write nothing for speech in another language.
        english = all(model.name.endswith(".en") for model in wanted)
        draft = "tiny.en" if english else "tiny"
    drafts = [model for model in service.weights if model.name == draft]
    if draft and not drafts:
        known = ", ".join(sorted(model.name for model in service.weights))
        raise UnitError(
            f"whisper_draft names no model of {service.name}: {draft}; "
            f'it is auto, "" or one of {known}'
        )
    fetched = wanted + [model for model in drafts if not model.wanted]
    cuda, home = accelerator == "cuda", service.volumes[0].path
    arguments = [
        *("--device", "cuda" if cuda else "cpu"),
        *("--host", service.address, "--port", service.port, "--state", home),
        # Keys are checked at the reverse proxy; in here the link is the authentication.
        "--open",
        *(("--unload", unload_s) if unload_s else ()),
        # The link decides who may reach it: `publish_tcp` of the record names them.
        *(
            ("--wyoming-host", service.address, "--wyoming-port", next(iter(ports)))
            if (ports := service.publish_tcp)
            else ()
        ),
        *_options("--model", [current(model.program, model.name) for model in wanted]),
        *_options("--draft", [current(model.program, model.name) for model in drafts]),
    ]
    # Uploads lie on the disk; a systemd's /tmp is memory.
    environment = {"TMPDIR": home}
    if cuda:
        # CTranslate2 looks for cuBLAS where all programs look for libraries; its wheel does not.
        environment["LD_LIBRARY_PATH"] = current(service.name, "nvidia/cublas/lib")
    exceptions = {
        "ProcSubset": "the choice of model and threads reads processor and memory from /proc",
        "MemoryDenyWriteExecute": "CTranslate2's oneDNN compiles its kernels for this processor "
        "in memory, as CUDA's driver does",
    }
    # The server knows a model by the name of the folder around its files.
    files = {
        model.program: {f"{model.name}/{name}": at for name, at in model.files.items()}
        for model in fetched
    }
    return _program(service, "whisper", cuda, files, arguments, environment, exceptions)


def kokoro(service: Service, accelerator: str) -> dict[str, Any]:
    """Return the files that the TTS server needs, and its start data."""
    cuda, home = accelerator == "cuda", service.volumes[0].path
    models = [name for name in service.sources if name in _KOKORO_MODELS[cuda]]
    # PyTorch's weights have their configuration beside them; other files have a folder each.
    together = {name: [name] for name in service.sources if name != "kokoro_config"}
    if "kokoro_weights" in together:
        together["kokoro_weights"] = ["kokoro_weights", "kokoro_config"]
    arguments = [
        *("--engine", "torch" if cuda else "onnx"),
        *("--voices", current("kokoro_voices", _KOKORO_FILES["kokoro_voices"])),
        *("--host", service.address, "--port", service.port, "--state", home),
        # Keys are checked at the reverse proxy; in here the link is the authentication.
        "--open",
        *_options("--model", [current(name, _KOKORO_FILES[name]) for name in models]),
    ]
    environment = {}
    exceptions = {"ProcSubset": "the choice of kernels and threads reads the processor from /proc"}
    if cuda:
        # PyTorch loads Python's line editor, which reads about a terminal that has an entry as
        # another user would. No program of the house may do that, and it would be killed.
        environment["TERM"] = "none"
        exceptions["MemoryDenyWriteExecute"] = "CUDA's driver compiles for its card in memory"
    files = {
        program: {_KOKORO_FILES[name]: name for name in names}
        for program, names in together.items()
    }
    return _program(service, "kokoro", cuda, files, arguments, environment, exceptions)


def voice_config(house: House, service: Service, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of the voice server.

    Args:
        house: The house.
        service: The voice server.
        options: The role's variables without their prefix: alias, voices, instructions, calls.

    Raises:
        UnitError: The alias does not exist, or there are no voices.
    """
    alias, voices = options["alias"], options["voices"]
    if alias not in house.aliases:
        known = ", ".join(sorted(house.aliases))
        raise UnitError(f"voice_alias: there is no alias {alias}; write one of {known}")
    if not voices:
        raise UnitError("voice_voices: has no voice; write e.g. {en: af_heart}")
    needed = [house.services[name] for name in service.needs]

    def url(offer: str) -> str:
        return next(one.url for one in needed if offer in one.offers)

    config = {
        "litellm": url("models"),
        "whisper": url("transcription"),
        "kokoro": url("speech_stream"),
        "model": alias,
        "voices": dict(voices),
        "calls": options["calls"],
    }
    return config | ({"instructions": text} if (text := options["instructions"]) else {})


def _options(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _program(
    service: Service,
    name: str,
    cuda: bool,
    files: Mapping[str, Mapping[str, str]],
    arguments: list[Any],
    environment: Mapping[str, str],
    exceptions: Mapping[str, str],
) -> dict[str, Any]:
    """Return the files and the start data of one of our programs, which may open a card."""
    home = service.volumes[0].path
    return {
        "requirements": f"{name}_gpu.txt" if cuda else f"{name}.txt",
        "files": files,
        "watch": [current(program) for program in files],
        "run": {
            "module": f"hearth_{name}",
            "arguments": arguments,
            "environment": {"HOME": home, **environment},
            "summary": service.summary,
            "user": name,
            "import_from": [current(service.name)],
            "writable": [home],
            # Drivers name their devices nvidia-frontend or nvidia, by version.
            "devices": ["char-nvidia*"] if cuda else [],
            "ceiling": {"value": 1.5, "reason": "it opens the card"} if cuda else {},
            "exceptions": {
                rule: {"value": "all" if rule == "ProcSubset" else "no", "reason": reason}
                for rule, reason in exceptions.items()
            },
        },
    }
