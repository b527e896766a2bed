"""The page as the server sends it."""

import re

import httpx

from ..conftest import House


async def test_the_page_and_its_files_are_served(house: House) -> None:
    async with httpx.AsyncClient(base_url=house.url, trust_env=False) as client:
        page = await client.get("/")
        assert page.is_success
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "$" not in page.text
        files = set(re.findall(r'(?:src|href)="(/page/[^"]+)"', page.text))
        assert any(name.endswith("main.mjs") for name in files)
        assert not any(name.endswith("worklet.mjs") for name in files)
        folder = next(iter(files)).rpartition("/")[0]
        for name in [*files, f"{folder}/worklet.mjs"]:
            assert (await client.get(name)).is_success, name
