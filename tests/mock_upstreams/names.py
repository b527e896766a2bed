"""The simulated host names, and where the real servers keep their files."""

GITHUB = "github.com"
GITHUB_ASSETS = "release-assets.githubusercontent.com"
# Packs the files of a tag on request, for tags without a release.
GITHUB_ARCHIVES = "codeload.github.com"
REGISTRY = "registry.ollama.ai"
# Ollama's registry keeps blobs at Cloudflare and redirects each GET of one there.
REGISTRY_BLOBS = "dd20bb891979d25aebc8bec07b2b3bbc.r2.cloudflarestorage.com"
HUGGING_FACE = "huggingface.co"
# Hugging Face serves large files from this host, and small ones from the site itself.
HUGGING_FACE_FILES = "cas-bridge.xethub.hf.co"

# Pages that the agents' researcher reads in a lab.
PAGES = ("www.openssh.com", "logging.apache.org")
# No real server: the scripted model (scripted/), which a lab's house calls like an external one.
SCRIPTED = "scripted-model.example.org"
# A made-up site under a domain for documentation, with pages that misbehave.
EXAMPLE_SITE = "pages.example.org"

ALL = (
    *(GITHUB, GITHUB_ASSETS, GITHUB_ARCHIVES),
    *(REGISTRY, REGISTRY_BLOBS),
    *(HUGGING_FACE, HUGGING_FACE_FILES),
    *PAGES,
    EXAMPLE_SITE,
    SCRIPTED,
)
