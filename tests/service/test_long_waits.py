"""One episode that stays open for long, and what it does to the disk, to other clients and to whoever administers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.serving import serving, uniform


async def test_an_open_episode_does_not_fill_the_disk(tmp_path: Path) -> None:
    """What is on the disk stays in proportion to what was asked, however much is held back."""
    folder = tmp_path / "it"
    async with serving(folder, uniform()) as client:
        forgotten = await client.start("forgotten")
        for k in range(0, 600, 20):
            await asyncio.gather(*(client.whole(str(k + i)) for i in range(20)))
        for k in range(100):  # each of these ends alone
            await client.whole(f"alone {k}")
        assert sum(path.stat().st_size for path in folder.iterdir()) < 8e6
        assert (await client.post(f"{forgotten}/expire"))[0] == 200
        await client.counted(700)
