"""The host names that the mock upstreams plays, and where the real servers keep what it serves."""

GITHUB = "github.com"
GITHUB_ASSETS = "release-assets.githubusercontent.com"
# What is no release but the files of a tag is packed here when it is asked for.
GITHUB_ARCHIVES = "codeload.github.com"
REGISTRY = "registry.ollama.ai"
# Ollama's registry keeps blobs at Cloudflare and sends each GET of one there.
REGISTRY_BLOBS = "dd20bb891979d25aebc8bec07b2b3bbc.r2.cloudflarestorage.com"
HUGGING_FACE = "huggingface.co"
# Large files of Hugging Face lie elsewhere; small ones are answered by the same host.
HUGGING_FACE_FILES = "cas-bridge.xethub.hf.co"

ALL = (
    *(GITHUB, GITHUB_ASSETS, GITHUB_ARCHIVES),
    *(REGISTRY, REGISTRY_BLOBS),
    *(HUGGING_FACE, HUGGING_FACE_FILES),
)
