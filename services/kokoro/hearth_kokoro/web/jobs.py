"""`/v1/audio/jobs`: a long text becomes a file; its progress, the file, and its removal."""

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from hearth_kokoro.jobs.runner import JobRunner
from hearth_kokoro.web.encoders import MEDIA_TYPES
from hearth_kokoro.web.requests import no_words_error, parse_job_request
from hearth_kokoro.web.speech import has_words
from hearth_kokoro.web.state import ServerState
from hearth_serving.errors import ServiceError, error_response
from hearth_serving.limits import read_body

PATH = "/v1/audio/jobs"
_NO_STORE = {"Cache-Control": "no-store"}


async def create_job(request: Request) -> Response:
    """Keep a text; return its job with status 202."""
    state: ServerState = request.app.state.server
    try:
        runner, loaded = _runner(state), state.ready()
        wanted = parse_job_request(await read_body(request, state.limits), state.limits)
        voice = loaded.voices.get(wanted.voice_name)
        if not await has_words(wanted.input, voice.language):
            raise no_words_error()
        # A language that this server does not speak is rejected now, not after hours.
        await loaded.synthesizer.check(voice)
        job = runner.create(wanted.input, wanted.voice_name, wanted.speed, wanted.response_format)
    except ServiceError as error:
        return error_response(error)
    headers = {**_NO_STORE, "Location": f"{PATH}/{job.id}"}
    return JSONResponse(runner.describe(job), 202, headers)


async def job(request: Request) -> Response:
    """Return the progress of a job; DELETE stops and removes it."""
    try:
        runner = _runner(request.app.state.server)
        found = runner.store.get(request.path_params["id"])
        if request.method == "DELETE":
            await runner.delete(found)
            return Response(status_code=204)
    except ServiceError as error:
        return error_response(error)
    return JSONResponse(runner.describe(found), headers=_NO_STORE)


async def job_audio(request: Request) -> Response:
    """Return the finished file, or the range of it that is requested."""
    try:
        runner = _runner(request.app.state.server)
        found = runner.store.get(request.path_params["id"])
        if found.state == "failed":
            raise ServiceError(f"the job failed: {found.error}", status=409, code="job_failed")
        if found.state != "done":
            message = "the file is not complete yet"
            raise ServiceError(message, status=409, code="job_not_done", retry_after_s=10)
    except ServiceError as error:
        return error_response(error)
    name = (
        f"{found.voice}.{found.format}" if found.voice.isidentifier() else f"speech.{found.format}"
    )
    return FileResponse(
        runner.store.file(found), 200, _NO_STORE, MEDIA_TYPES[found.format], filename=name
    )


def _runner(state: ServerState) -> JobRunner:
    state.ready()
    if state.jobs is None:
        message = "this server has no folder for long texts; start it with --state"
        raise ServiceError(message, status=503, code="no_state_folder")
    return state.jobs
