"""What the recordings say, by their names: `SECONDSs-NUMBER`."""

TEXTS = {
    "1s-1": "What time is it now?",
    "1s-2": "Turn on the kitchen lamp.",
    "1s-3": "Read me the news.",
    "3s-1": "Please put the kettle on and open the window for a little while.",
    "3s-2": "How long does the train to the harbour take on a Sunday morning?",
    "3s-3": "Tell my sister that I will be late and that the door is open.",
    "10s-1": (
        "The boat left the harbour before anyone had found the map, and by the time the rain "
        "stopped the whole valley smelled of cut grass and nobody wanted to go home "
        "again before night."
    ),
    "10s-2": (
        "When the lamps went out the children counted slowly to a hundred, and one of them said "
        "that the noise they heard was not thunder at all but only an old farm cart with a loose "
        "wheel."
    ),
    "30s-1": (
        "Anna kept a small workshop at the end of the lane where the road turns down to the river, "
        "and every morning began with the same three things, a kettle and a window and a list, "
        "because some days the list was long with clocks to be cleaned and a chair without a leg "
        "and a radio that hummed, and on other days there was a single line on it that nobody "
        "could read, but it did not matter much since the people who came in wanted to talk as "
        "often as they wanted anything mended, and so the kettle was always warm and the chairs "
        "were never empty."
    ),
}
